//! The provider sink: plays e-mail providers over their real wire formats, on one loopback port,
//! and SMTP on another.
//!
//! Local mode, compose, tests, chaos runs and benches all point the product's own provider clients here
//! (`AWS_ENDPOINT_URL_SESV2`, base URLs of the others), so the code that runs is the code that ships.
//!
//! What it does: checks a request the way the provider does, plays a scripted fault if one is due, keeps accepted
//! mails in a bounded [mailbox](Sink::mails), counts acceptances exactly (per delivery id and per identity), and posts
//! the provider's own events back to a configured target.
//!
//! What it refuses: unsigned requests, malformed mails (the provider's own answer, not a generic one), unknown faults
//! (422 naming the field), and event targets outside loopback unless the program was told to allow them.
//!
//! Invariants:
//! - *accepted* means three things at once: in the mailbox, counted, its events queued. No fault does only some of them;
//! - counts are exact for ever, while the mailbox forgets its oldest mails;
//! - no lock is held across an await, so one slow client never slows another.
//!
//! To add a provider: a variant of [`Provider`], a folder with its request types, checks, answers and events, one
//! implementation of `exchange::Wire`, and its routes in `Sink::router`. One that is not HTTP (`smtp`) implements `exchange::Played` and
//! brings its own listener.

#![expect(clippy::disallowed_methods, reason = "it plays the outside world, which has a clock and ids of its own")]

mod address;
mod control;
mod counts;
mod events;
mod exchange;
mod faults;
mod idempotency;
mod mail;
mod mailbox;
mod mime;
mod pages;
mod postmark;
mod problem;
mod resend;
mod sendgrid;
mod server;
mod ses;
mod sink;
mod smtp;
mod store;

pub use events::{EventsTarget, TargetError};
pub use faults::{Fault, FaultKind};
pub use mail::{Attachment, Header, Mail, Provider};
pub use sink::{Sink, SinkConfig};
