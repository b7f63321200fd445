//! Mail providers: one folder each, from a composed mail to exactly one [`Outcome`](waybill_core::outcome::Outcome), and from the
//! provider's events to [`FeedbackEvent`](waybill_core::ports::FeedbackEvent)s.
//!
//! What it does: [`ses`] and [`sendgrid`] send one mail per call over their HTTP APIs, tag it with our ids (and nothing else), and
//! classify every answer, error and silence. [`registry`] lists them for whoever configures or receives.
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
//! [`registry::PROVIDERS`]; one line in `tests/contract.rs`. Display names, sizes and details are shared (`mailbox`, [`encoded_size`],
//! `detail`).
//!
//! Events are verified by HTTP Basic for now ([`events::verify_basic`]); the providers' signatures are a later issue.
//!
//! TLS: both clients use rustls with aws-lc-rs. Each picks it by itself, so nothing panics when another crate compiles *ring* in, too;
//! a process that uses rustls directly should still call `rustls::crypto::aws_lc_rs::default_provider().install_default()` first
//! thing in `main`, because rustls itself does not choose between two.

mod detail;
pub mod events;
mod mailbox;
pub mod registry;
pub mod sendgrid;
pub mod ses;
mod settings;
mod size;
#[cfg(test)]
mod test_mail;
#[cfg(test)]
mod test_server;

pub use events::{EventError, verify_basic};
pub use sendgrid::{SendGridConfig, SendGridProvider};
pub use ses::{SesConfig, SesCredentials, SesProvider};
pub use settings::{Build, SettingError, Settings, SetupError};
pub use size::encoded_size;
