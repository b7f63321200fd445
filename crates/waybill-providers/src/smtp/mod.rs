//! Any SMTP server that takes submissions (RFC 5321, RFC 6409): one connection, one message, one recipient per call.
//!
//! SMTP knows no idempotency key and no events: what became of a message after silence is never told, so an unknown outcome goes on by the
//! tenant's policy. The dialogue is led step by step, because only that says whether the message's last byte had been sent.

mod classify;
mod config;
mod message;

pub(crate) use config::build;
pub use config::{SmtpConfig, SmtpCredentials, SmtpTls};

use crate::{SetupError, mailbox::Addresses, size};
use async_trait::async_trait;
use classify::{Reply, Stage};
use lettre::{
    Address,
    transport::smtp::{
        Error,
        authentication::{Credentials, Mechanism},
        client::{AsyncSmtpConnection, TlsParameters},
        commands::{Data, Mail, Rcpt},
        extension::ClientId,
        response::{Response, Severity},
    },
};
use std::{error::Error as _, time::Duration};
use waybill_core::{mail::OutgoingMail, outcome::Outcome, ports::Provider};

/// What the large hosts take (25 MB, read as the smaller megabyte). A server that takes less says so, and the next provider is asked.
pub const MAX_ENCODED_BYTES: usize = 25_000_000;

const MAX_CONNECT: Duration = Duration::from_secs(5);
/// After the answer: a polite end, which nobody waits for longer.
const QUIT: Duration = Duration::from_millis(200);

/// One submission account.
pub struct SmtpProvider {
    host: String,
    port: u16,
    tls: SmtpTls,
    parameters: Option<TlsParameters>,
    credentials: Option<Credentials>,
    timeout: Duration,
}

impl SmtpProvider {
    /// # Errors
    /// [`SetupError::Client`] when TLS can't be set up for the host.
    pub fn new(config: SmtpConfig) -> Result<Self, SetupError> {
        let parameters = match config.tls {
            SmtpTls::Implicit | SmtpTls::StartTls => {
                Some(TlsParameters::new(config.host.clone()).map_err(|error| SetupError::Client(Box::new(error)))?)
            }
            SmtpTls::None => None,
        };
        let credentials =
            config.credentials.map(|account| Credentials::new(account.username, account.password.expose().to_owned()));
        let (host, port, tls, timeout) = (config.host, config.port, config.tls, config.timeout);
        Ok(Self { host, port, tls, parameters, credentials, timeout })
    }

    async fn call(&self, mail: &OutgoingMail) -> Result<Outcome, Outcome> {
        size::check(mail, MAX_ENCODED_BYTES)?;
        let addresses = Addresses::of(mail)?;
        let (from, to) = (envelope(&addresses.from)?, envelope(&addresses.to)?);
        let message = message::message(mail, &addresses);
        let mut stage = Stage::Greeting;
        let dialogue = self.dialogue(from, to, &message, &mut stage);
        match tokio::time::timeout(self.timeout, dialogue).await {
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(error)) => Err(failed(stage, &error)),
            Err(_) => Err(classify::silence(stage, "no answer within the time-out")),
        }
    }

    /// Leaves in `stage` how far it came. Dropped at the deadline, it closes the connection.
    async fn dialogue(&self, from: Address, to: Address, message: &[u8], stage: &mut Stage) -> Result<Outcome, Error> {
        let mut connection = self.connect().await?;
        if let Some(credentials) = &self.credentials {
            *stage = Stage::Authentication;
            connection.auth(&[Mechanism::Plain, Mechanism::Login], credentials).await?;
        }
        *stage = Stage::Sender;
        connection.command(Mail::new(Some(from), Vec::new())).await?;
        *stage = Stage::Recipient;
        connection.command(Rcpt::new(to, Vec::new())).await?;
        *stage = Stage::Data;
        let go_on = connection.command(Data).await?;
        if go_on.code().severity != Severity::PositiveIntermediate {
            let why = format!("{} instead of 354", go_on.code());
            return Ok(classify::silence(*stage, &why));
        }
        *stage = Stage::Message;
        let reply = connection.message(message).await?;
        let outcome = answered(&reply);
        // The answer is there; how the connection ends changes nothing.
        drop(tokio::time::timeout(QUIT, connection.quit()).await);
        Ok(outcome)
    }

    async fn connect(&self) -> Result<AsyncSmtpConnection, Error> {
        let hello = ClientId::default();
        let implicit = match self.tls {
            SmtpTls::Implicit => self.parameters.clone(),
            SmtpTls::StartTls | SmtpTls::None => None,
        };
        let connect = MAX_CONNECT.min(self.timeout / 2);
        let server = (self.host.as_str(), self.port);
        let mut connection = AsyncSmtpConnection::connect_tokio1(server, Some(connect), &hello, implicit, None).await?;
        if let (SmtpTls::StartTls, Some(parameters)) = (self.tls, &self.parameters) {
            // A server that does not offer it gets an error here, and nothing else.
            connection.starttls(parameters.clone(), &hello).await?;
        }
        Ok(connection)
    }
}

/// Both are checked before: this is the same address in the crate's own type.
fn envelope(address: &str) -> Result<Address, Outcome> {
    address.parse().map_err(|_| Outcome::RejectedMessage { detail: "an address is none for an envelope".into() })
}

fn answered(reply: &Response) -> Outcome {
    match reply.code().severity {
        Severity::PositiveCompletion => classify::accepted(&reply.message().collect::<Vec<_>>().join(" ")),
        // The crate makes errors of negative replies; a 3yz at this point means nothing.
        Severity::PositiveIntermediate
        | Severity::TransientNegativeCompletion
        | Severity::PermanentNegativeCompletion => {
            classify::silence(Stage::Message, &format!("{} after the message", reply.code()))
        }
    }
}

fn failed(stage: Stage, error: &Error) -> Outcome {
    let said = error.source().map(ToString::to_string).unwrap_or_default();
    if let Some(code) = error.status() {
        return classify::refused(stage, &Reply { code: code.into(), text: &said });
    }
    // Ours: STARTTLS is not offered, or no way to authenticate.
    if error.is_client() && stage != Stage::Message {
        return Outcome::Unusable { detail: crate::detail::detail(&said) };
    }
    classify::silence(stage, if said.is_empty() { "no answer" } else { &said })
}

#[async_trait]
impl Provider for SmtpProvider {
    fn name(&self) -> &'static str {
        "smtp"
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    /// It has none.
    fn events_wired(&self) -> bool {
        false
    }

    fn max_encoded_bytes(&self) -> usize {
        MAX_ENCODED_BYTES
    }

    async fn send(&self, mail: &OutgoingMail) -> Outcome {
        self.call(mail).await.unwrap_or_else(|outcome| outcome)
    }
}

#[cfg(test)]
mod tests;
