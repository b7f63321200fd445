//! What a month costs: the bench's price table for what grows, and what stands there anyway.

use crate::{inputs::Inputs, scenario::Size};
use serde_json::Value;

const PRICES: &str = include_str!("../../waybill-bench/prices.json");
const MILLION: f64 = 1e6;

/// USD a month.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// SES.
    pub mails: f64,
    /// SQS, with the surcharge of fair queues.
    pub queues: f64,
    /// Database, tasks, network, watching.
    pub standing: f64,
}

impl Cost {
    pub fn all(&self) -> f64 {
        self.mails + self.queues + self.standing
    }

    /// Plain mails by the first provider.
    pub fn of(inputs: &Inputs, size: &Size) -> Self {
        let prices: Value = serde_json::from_str(PRICES).unwrap_or(Value::Null);
        let price = |name: &str| prices[name].as_f64().unwrap_or(f64::NAN);
        let request = price("sqs_per_million_requests") + price("sqs_fair_queue_surcharge_per_million_requests");
        // The tasks of infra/lib/services.ts: two schedulers and two intakes of a quarter stand beside.
        let vcpu = 0.5 * (size.api + size.routers) as f64 + size.workers as f64 + 1.0;
        Self {
            mails: size.deliveries_per_month / 1_000.0 * price("ses_per_thousand_mails"),
            queues: size.deliveries_per_month * inputs.get("queue_requests_per_delivery") / MILLION * request,
            standing: inputs.get("usd_database_2_vcpu") * size.database_servers as f64 / 2.0
                + inputs.get("usd_vcpu_month") * vcpu
                + inputs.get("usd_standing"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::SIZES;

    #[test]
    fn a_billion_mails_cost_what_the_price_list_says() {
        let cost = Cost::of(&Inputs::default(), &SIZES[2]);
        assert_eq!(cost.mails, 100_000.0);
        assert!((cost.queues - 165.5).abs() < 0.1, "{}", cost.queues);
        assert!(cost.standing > 1_000.0 && cost.standing < 5_000.0, "{}", cost.standing);
    }
}
