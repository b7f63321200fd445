//! The sink over real HTTP, as the providers' clients see it.

#![allow(clippy::disallowed_methods, reason = "tests run on the real clock")]

mod common;
mod control;
mod events;
mod faults;
mod mailbox;
mod postmark;
mod resend;
mod sendgrid;
mod ses;
mod smtp;
