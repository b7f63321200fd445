//! What a million deliveries costs on AWS, from counted requests and a dated price table (`prices.json`).
//!
//! Only what grows with the number of deliveries. What stands there anyway (database, Redis, load balancer, the least number of tasks)
//! is a matter of its size; docs/running-on-aws.md adds it up.

use serde::Deserialize;
use serde_json::{Value, json};

const PRICES: &str = include_str!("../prices.json");
const MILLION: f64 = 1_000_000.0;
const GB: f64 = 1_000_000_000.0;

/// On-demand list prices of one region, in USD.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Prices {
    /// Month of the list.
    as_of: String,
    region: String,
    currency: String,
    #[serde(rename = "note")]
    _note: String,
    sqs_per_million_requests: f64,
    /// For requests on queues whose messages have a group (fair queues): all of ours.
    sqs_fair_queue_surcharge_per_million_requests: f64,
    ses_per_thousand_mails: f64,
    ses_per_gb_of_attachments: f64,
    s3_per_thousand_puts: f64,
    s3_per_thousand_gets: f64,
    lambda_per_million_requests: f64,
    lambda_arm_per_gb_second: f64,
    fargate_arm_per_vcpu_hour: f64,
    logs_per_gb_ingested: f64,
}

/// What one delivery uses, on average.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Use {
    pub(crate) sqs_requests: f64,
    pub(crate) cpu_s: f64,
    /// Octets of log.
    pub(crate) log_bytes: f64,
    /// Documents rendered per delivery; 0.1 when ten recipients share one.
    pub(crate) documents: f64,
    pub(crate) document: DocumentUse,
}

/// What one document uses.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct DocumentUse {
    /// Octets, as stored.
    pub(crate) size: f64,
    pub(crate) s3_puts: f64,
    pub(crate) s3_gets: f64,
    pub(crate) lambda_s: f64,
    pub(crate) lambda_gb: f64,
}

/// USD per million deliveries, by service. `null` when the price table can't be read, which a test excludes.
pub(crate) fn per_million(used: &Use) -> Value {
    serde_json::from_str(PRICES).map_or(Value::Null, |prices| priced(used, &prices))
}

fn priced(used: &Use, prices: &Prices) -> Value {
    let documents = used.documents * MILLION;
    let per_request =
        (prices.sqs_per_million_requests + prices.sqs_fair_queue_surcharge_per_million_requests) / MILLION;
    let lines = [
        ("sqs", used.sqs_requests * MILLION * per_request),
        ("ses", MILLION / 1_000.0 * prices.ses_per_thousand_mails),
        (
            "ses_attachments",
            // Each mail carries the document; an attachment counts as it is encoded (base64, four octets for three).
            if used.documents > 0.0 {
                MILLION * used.document.size * 4.0 / 3.0 / GB * prices.ses_per_gb_of_attachments
            } else {
                0.0
            },
        ),
        (
            "s3",
            documents / 1_000.0
                * (used.document.s3_puts * prices.s3_per_thousand_puts
                    + used.document.s3_gets * prices.s3_per_thousand_gets),
        ),
        (
            "lambda",
            documents
                * (prices.lambda_per_million_requests / MILLION
                    + used.document.lambda_s * used.document.lambda_gb * prices.lambda_arm_per_gb_second),
        ),
        ("fargate_cpu", used.cpu_s * MILLION / 3_600.0 * prices.fargate_arm_per_vcpu_hour),
        ("logs", used.log_bytes * MILLION / GB * prices.logs_per_gb_ingested),
    ];
    let total: f64 = lines.iter().map(|(_, usd)| usd).sum();
    let mut out: serde_json::Map<String, Value> =
        lines.into_iter().map(|(service, usd)| (service.to_owned(), json!(cents(usd)))).collect();
    out.insert("total".to_owned(), json!(cents(total)));
    out.insert("prices".to_owned(), json!(format!("{} {} {}", prices.region, prices.as_of, prices.currency)));
    Value::Object(out)
}

fn cents(usd: f64) -> f64 {
    (usd * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: 0.333 requests at 0.50 per million; 1,000,000 mails at 0.10 per thousand; 270 vCPU seconds; 1 GB of log.
    #[test]
    fn a_million_plain_mails() {
        let used = Use { sqs_requests: 0.333, cpu_s: 0.000_27, log_bytes: 1_000.0, ..Use::default() };
        let cost = per_million(&used);
        assert_eq!(cost["sqs"], json!(0.17));
        assert_eq!(cost["ses"], json!(100.0));
        assert_eq!(cost["fargate_cpu"], json!(0.0));
        assert_eq!(cost["logs"], json!(0.5));
        assert_eq!((&cost["lambda"], &cost["s3"], &cost["ses_attachments"]), (&json!(0.0), &json!(0.0), &json!(0.0)));
        assert_eq!(cost["total"], json!(100.67));
    }

    /// 100,000 documents of 30,000 octets: 100,000 PUTs are 0.50, 300,000 GETs are 0.12; a tenth of a second at 1.769 GB is 0.236 and the
    /// requests 0.02; a million attachments of 40,000 octets are 40 GB.
    #[test]
    fn a_document_for_ten_recipients() {
        let document = DocumentUse { size: 30_000.0, s3_puts: 1.0, s3_gets: 3.0, lambda_s: 0.1, lambda_gb: 1.769 };
        let cost = per_million(&Use { documents: 0.1, document, ..Use::default() });
        assert_eq!(cost["s3"], json!(0.62));
        assert_eq!(cost["lambda"], json!(0.26));
        assert_eq!(cost["ses_attachments"], json!(4.8));
        assert_eq!(cost["total"], json!(105.68));
    }
}
