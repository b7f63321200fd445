//! The delivery protocol (docs/protocol.md, "Deliver" and "Outcomes") as an explicit state machine that a model checker walks through
//! completely, within stated bounds. docs/model.md says in words what is modelled, what is not, and what was counted.
//!
//! - [`world`] is one state of everything: rows, send log, lock, queue, workers, and what really happened at the providers; [`names`] and
//!   [`pack`] make equal what doesn't differ, and name it;
//! - [`worker`] and [`system`] are the moves: those of a worker, and those of scheduler, queue, Redis, time, providers' events and people;
//! - [`action`] names them, [`words`] says them to people, [`protocol`] puts them together for the checker;
//! - [`properties`] are the promises, [`mutant`] the wrong protocols that the promises must refuse, [`bounds`] how much may go wrong;
//! - [`run`] checks, [`walk`] is a second, independent walk that also proves that no run goes on for ever.
//!
//! Invariants: a delivery changes its state through one function, which asks `DeliveryState::may_become`; what follows a call is
//! decided by `Pass::after`, as in the product. Nothing here knows more about legal moves than those two. A mutant is a setting of this
//! model and exists nowhere else.

pub mod action;
pub mod bounds;
pub mod mutant;
pub mod names;
pub mod pack;
pub mod properties;
pub mod protocol;
pub mod run;
pub mod system;
pub mod walk;
pub mod words;
pub mod worker;
pub mod world;
