//! Mail providers: one folder each, from a composed mail to exactly one [`Outcome`](waybill_core::outcome::Outcome), and from the
//! provider's events to [`FeedbackEvent`](waybill_core::ports::FeedbackEvent)s.
//!
//! What it does: [`ses`], [`sendgrid`], [`resend`] and [`postmark`] send one mail per call over their HTTP APIs, [`smtp`] over SMTP, tag it with our ids (and nothing
//! else), and classify every answer, error and silence. [`registry`] lists them for whoever configures or receives.
//!
//! What it refuses: retrying (the delivery state machine is the only one that retries), following redirects, mails that are larger
//! than the provider takes or addressed to what it can't carry (both without a call), and keeping an address in any detail.
//!
//! Invariants:
//! - *certainly not accepted* is claimed only for a connection that did not come about and for an answer that says so; a time-out, a
//!   reset, a 5xx, a success without an id are [`Unknown`](waybill_core::outcome::Outcome::Unknown);
//! - a call ends within the provider's time-out, connection and credentials included;
//! - nothing that a provider says fails a batch of events, and nothing it says reaches a row or a log unfiltered.
//!
//! To add a provider: a folder with `mod.rs` (send), `classify.rs`, `request.rs`, `events.rs`, `config.rs`; one line in
//! [`registry::PROVIDERS`]; one line in `tests/contract.rs`. Clients, display names, sizes and details are shared (`http`, `mailbox`,
//! [`encoded_size`], `detail`).
//!
//! Events are verified by their provider's signature where its secret is known ([`events::EventSignature`]: Resend), else by HTTP Basic
//! ([`events::verify_basic`]).
//!
//! TLS: all clients use rustls with aws-lc-rs. Each picks it by itself, so nothing panics when another crate compiles *ring* in, too;
//! a process that uses rustls directly should still call `rustls::crypto::aws_lc_rs::default_provider().install_default()` first
//! thing in `main`, because rustls itself does not choose between two.

mod detail;
mod encode;
pub mod events;
mod http;
mod mailbox;
pub mod postmark;
pub mod registry;
pub mod resend;
pub mod sendgrid;
pub mod ses;
mod settings;
mod size;
pub mod smtp;
mod svix;
#[cfg(test)]
mod test_mail;
#[cfg(test)]
mod test_server;

pub use events::{EventError, EventSignature, verify_basic};
pub use postmark::{PostmarkConfig, PostmarkProvider};
pub use resend::{ResendConfig, ResendProvider};
pub use sendgrid::{SendGridConfig, SendGridProvider};
pub use ses::{SesConfig, SesCredentials, SesProvider};
pub use settings::{Build, SettingError, Settings, SetupError};
pub use size::encoded_size;
pub use smtp::{SmtpConfig, SmtpCredentials, SmtpProvider, SmtpTls};
pub use svix::Svix;
