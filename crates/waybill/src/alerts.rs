//! Where alerts go: the log always, a Slack-compatible webhook when configured.

use async_trait::async_trait;
use serde_json::json;
use std::time::Duration;
use tracing::{error, warn};
use waybill_core::ports::{Alert, AlertSink};
use waybill_crypto::Secret;

pub(crate) struct LogAlerts;

#[async_trait]
impl AlertSink for LogAlerts {
    async fn raise(&self, alert: &Alert) {
        error!(
            cause = alert.cause.as_str(),
            key = alert.key,
            count = alert.count,
            next = alert.command,
            "ALERT {}",
            alert.message
        );
    }
}

pub(crate) struct WebhookAlerts {
    url: Secret,
    client: reqwest::Client,
}

impl WebhookAlerts {
    /// # Errors
    /// When no HTTP client can be made.
    pub(crate) fn new(url: Secret) -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder()
            .timeout(Duration::from_secs(5))
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        Ok(Self { url, client })
    }
}

/// Slack's "incoming webhook" takes a JSON object with a `text`; `&`, `<` and `>` are its control characters.
fn body(alert: &Alert) -> serde_json::Value {
    let text = alert.message.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    json!({ "text": format!(":rotating_light: *{}* ({} in all) {text}\nnext: `{}`", alert.cause.as_str(), alert.count, alert.command) })
}

#[async_trait]
impl AlertSink for WebhookAlerts {
    async fn raise(&self, alert: &Alert) {
        match self.client.post(self.url.expose()).json(&body(alert)).send().await {
            Ok(answer) if answer.status().is_success() => {}
            Ok(answer) => warn!(status = answer.status().as_u16(), "alert.webhook_refused"),
            Err(error) => warn!(error = &error.without_url() as &dyn std::error::Error, "alert.webhook_failed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use waybill_core::ports::AlertCause;

    #[test]
    fn the_message_names_cause_count_and_next_command_and_can_t_mention_a_channel() {
        let alert = Alert {
            cause: AlertCause::DeadLetter,
            key: "k".into(),
            count: 3,
            message: "<!channel> & co".into(),
            command: "waybill dlq list".into(),
        };
        let text = body(&alert)["text"].as_str().unwrap().to_owned();
        assert!(text.contains("dead_letter") && text.contains("3 in all") && text.contains("`waybill dlq list`"));
        assert!(text.contains("&lt;!channel&gt; &amp; co"));
    }
}
