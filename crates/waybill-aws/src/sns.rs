//! Alerts to an SNS topic.

use crate::{config::within, failure::Failure};
use async_trait::async_trait;
use aws_config::{SdkConfig, retry::RetryConfig};
use aws_sdk_sns::config::Builder;
use std::time::Duration;
use waybill_core::{
    ports::{Alert, AlertSink},
    text::storable,
};

/// Whoever raises an alert waits for it.
const TIMEOUT: Duration = Duration::from_secs(5);
/// SNS wants fewer than 100 characters in a subject.
const MAX_SUBJECT: usize = 99;
/// Far below the 256 KB of a message.
const MAX_LINE: usize = 2_000;

/// The [`AlertSink`] that publishes to one topic. A failure is logged; the log has the alert itself, too.
pub struct SnsAlerts {
    client: aws_sdk_sns::Client,
    topic_arn: String,
}

impl SnsAlerts {
    pub fn new(config: &SdkConfig, topic_arn: impl Into<String>) -> Self {
        let settings = Builder::from(config).retry_config(RetryConfig::disabled()).timeout_config(within(TIMEOUT));
        Self { client: aws_sdk_sns::Client::from_conf(settings.build()), topic_arn: topic_arn.into() }
    }
}

/// ASCII without line breaks: SNS refuses anything else, and e-mail shows it as the subject.
fn subject(alert: &Alert) -> String {
    let text = format!("Waybill: {} ({} in all) {}", alert.cause.as_str(), alert.count, alert.key);
    let ascii = |c: char| if c == ' ' || c.is_ascii_graphic() { c } else { '?' };
    text.chars().map(ascii).take(MAX_SUBJECT).collect()
}

fn message(alert: &Alert) -> String {
    let line = |text: &str| storable(text, MAX_LINE);
    format!(
        "{}\n\ncause: {}\nkey: {}\ncount: {}\nnext: {}\n",
        line(&alert.message),
        alert.cause.as_str(),
        line(&alert.key),
        alert.count,
        line(&alert.command)
    )
}

#[async_trait]
impl AlertSink for SnsAlerts {
    async fn raise(&self, alert: &Alert) {
        let publish = self.client.publish().topic_arn(&self.topic_arn).subject(subject(alert)).message(message(alert));
        if let Err(error) = publish.send().await {
            let failure = Failure::of(&error);
            tracing::warn!(cause = alert.cause.as_str(), failure = %failure, "alert.sns_failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use waybill_core::ports::AlertCause;

    fn alert(key: &str) -> Alert {
        Alert {
            cause: AlertCause::DeadLetter,
            key: key.into(),
            count: 3,
            message: "3 new dead letter(s)\r\nBcc: x".into(),
            command: "waybill dlq list".into(),
        }
    }

    #[test]
    fn the_subject_is_one_short_line_of_ascii() {
        assert_eq!(subject(&alert("expired")), "Waybill: dead_letter (3 in all) expired");
        let text = subject(&alert(&format!("a\r\nb\u{e9}\0{}", "x".repeat(300))));
        assert!(text.starts_with("Waybill: dead_letter (3 in all) a??b??xx"), "{text}");
        assert_eq!(text.len(), MAX_SUBJECT);
    }

    #[test]
    fn the_message_says_everything_on_lines_of_its_own() {
        let text = message(&alert("expired"));
        assert_eq!(
            text,
            "3 new dead letter(s)  Bcc: x\n\ncause: dead_letter\nkey: expired\ncount: 3\nnext: waybill dlq list\n"
        );
        let long = Alert { message: "\u{e9}".repeat(300_000), ..alert("k") };
        assert!(message(&long).len() < 10_000);
    }
}
