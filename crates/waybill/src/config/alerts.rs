//! Where alerts go, beside the log.

use super::Reader;
use std::time::Duration;

#[derive(Debug, Clone)]
pub(crate) struct AlertsConfig {
    /// Slack-compatible incoming webhook.
    pub(crate) webhook_url: Option<waybill_crypto::Secret>,
    /// SNS topic.
    pub(crate) topic_arn: Option<String>,
    pub(crate) quiet: Duration,
}

impl AlertsConfig {
    pub(super) fn read(r: &mut Reader) -> Self {
        let webhook_url = r.optional(
            "WAYBILL_ALERT_WEBHOOK_URL",
            "Slack-compatible incoming webhook for alerts; the log has them always",
        );
        let topic_arn =
            r.optional("WAYBILL_ALERT_TOPIC_ARN", "SNS topic for alerts: `arn:aws:sns:region:account:name`");
        if let Some(arn) = &topic_arn
            && !is_topic(arn)
        {
            r.problem("WAYBILL_ALERT_TOPIC_ARN", format!("`{arn}`: expected arn:aws:sns:region:account:name"));
        }
        Self {
            webhook_url: webhook_url.map(waybill_crypto::Secret::new),
            topic_arn,
            quiet: r.millis("WAYBILL_ALERT_QUIET_MS", 900_000, "One cause rings at most once in this time"),
        }
    }
}

/// The partition differs (`aws`, `aws-cn`, …).
fn is_topic(arn: &str) -> bool {
    let parts: Vec<&str> = arn.split(':').collect();
    matches!(parts[..], ["arn", partition, "sns", region, account, name]
        if partition.starts_with("aws") && ![region, account, name].contains(&""))
}
