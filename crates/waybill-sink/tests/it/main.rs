//! The sink over real HTTP, as the providers' clients see it.

mod common;
mod control;
mod events;
mod faults;
mod mailbox;
mod sendgrid;
mod ses;
