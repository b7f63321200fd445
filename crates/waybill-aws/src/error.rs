//! What can go wrong when an adapter is made; what goes wrong later is the port's own error.

/// One line for the operator: what was asked for, and what AWS said.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AwsError {
    #[error("queue {name}: {problem}")]
    Queue { name: String, problem: String },
    #[error("{0}")]
    Config(String),
}

/// What an error was caused by: the SDK's own words end at "dispatch failure".
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let causes: Vec<String> =
        std::iter::successors(error.source(), |cause| cause.source()).map(ToString::to_string).collect();
    if causes.is_empty() { error.to_string() } else { causes.join(": ") }
}
