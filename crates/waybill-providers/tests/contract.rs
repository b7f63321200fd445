//! The provider contract, one line per provider.

use std::{future::Future, pin::Pin, sync::Arc};
use waybill_core::ports::Provider;
use waybill_providers::{
    PostmarkConfig, PostmarkProvider, ResendConfig, ResendProvider, SendGridConfig, SendGridProvider, SesConfig,
    SesCredentials, SesProvider, SmtpConfig, SmtpProvider,
};
use waybill_sink::Provider as Played;
use waybill_testkit::contract::provider::{FarSide, TIMEOUT, run};

type Made = Pin<Box<dyn Future<Output = Arc<dyn Provider>>>>;

fn ses(url: String) -> Made {
    let config = SesConfig {
        account: "contract".into(),
        region: "eu-central-1".into(),
        endpoint_url: Some(url),
        configuration_set: Some("waybill-events".into()),
        credentials: SesCredentials::Static {
            access_key_id: "AKIA".into(),
            secret_access_key: "secret".into(),
            session_token: None,
        },
        timeout: TIMEOUT,
        events_wired: true,
    };
    Box::pin(async move { Arc::new(SesProvider::new(config).await) as Arc<dyn Provider> })
}

fn sendgrid(url: String) -> Made {
    let config = SendGridConfig { base_url: url, timeout: TIMEOUT, ..SendGridConfig::new("SG.contract".into()) };
    Box::pin(async move { Arc::new(SendGridProvider::new(config).expect("a good configuration")) as Arc<dyn Provider> })
}

fn resend(url: String) -> Made {
    let config = ResendConfig { base_url: url, timeout: TIMEOUT, ..ResendConfig::new("re_contract".into()) };
    Box::pin(async move { Arc::new(ResendProvider::new(config).expect("a good configuration")) as Arc<dyn Provider> })
}

fn postmark(url: String) -> Made {
    let config = PostmarkConfig { base_url: url, timeout: TIMEOUT, ..PostmarkConfig::new("pm-contract".into()) };
    Box::pin(async move { Arc::new(PostmarkProvider::new(config).expect("a good configuration")) as Arc<dyn Provider> })
}

fn smtp(url: String) -> Made {
    let config = SmtpConfig { timeout: TIMEOUT, ..SmtpConfig::parse(&url, false).expect("an address") };
    Box::pin(async move { Arc::new(SmtpProvider::new(config).expect("a good configuration")) as Arc<dyn Provider> })
}

#[rustfmt::skip]
mod contract {
    use super::*;
    #[tokio::test] async fn ses_keeps_the_contract() { run(ses, &FarSide::start(Played::Ses).await).await }
    #[tokio::test] async fn sendgrid_keeps_the_contract() { run(sendgrid, &FarSide::start(Played::SendGrid).await).await }
    #[tokio::test] async fn resend_keeps_the_contract() { run(resend, &FarSide::start(Played::Resend).await).await }
    #[tokio::test] async fn postmark_keeps_the_contract() { run(postmark, &FarSide::start(Played::Postmark).await).await }
    #[tokio::test] async fn smtp_keeps_the_contract() { run(smtp, &FarSide::start(Played::Smtp).await).await }
}
