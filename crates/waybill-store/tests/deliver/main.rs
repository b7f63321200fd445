//! The delivery half of the store on a real PostgreSQL: claims, results, expiries, unknowns, documents, feedback.
//! After each scenario [`world::World::check`] holds the rows against the protocol's invariants.

mod claims;
mod deliveries;
mod documents;
mod feedback;
mod hammer;
mod invariants;
mod reconcile;
mod results;
mod world;
