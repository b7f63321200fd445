//! What can go wrong when an adapter is made; what goes wrong later is the port's own error.

/// One line for the operator: what was asked for, and what AWS said.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AwsError {
    #[error("queue {name}: {problem}")]
    Queue { name: String, problem: String },
    #[error("{0}")]
    Config(String),
}
