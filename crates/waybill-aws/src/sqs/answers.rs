//! From what SQS answers to one result per entry.
//!
//! | what came back | result of the entry |
//! |---|---|
//! | in the list of successes | taken |
//! | in the list of failures, our fault (`SenderFault`) | `Permanent` |
//! | … but throttled, or about rights, keys or the queue itself | `Temporary`: the entry is good |
//! | in the list of failures, SQS's fault | `Temporary` |
//! | in both lists, or in none | `Temporary` |
//! | a receipt that is expired, replaced or not in flight | `StaleReceipt` |
//! | no answer, 5xx, throttled, no rights | `Temporary`, each entry of the request |
//! | the request refused for its contents | sent again in halves; an entry that is alone: as in a list of failures, our fault |

use crate::{
    batches::Answer,
    failure::{Failure, is_for_the_operator, is_passing, plain_code},
};
use aws_sdk_sqs::{
    config::http::HttpResponse,
    error::{ProvideErrorMetadata, SdkError},
    types::BatchResultErrorEntry,
};
use std::{collections::HashMap, error::Error, ops::Range};
use waybill_core::{ports::EntryError, text::storable};

/// What entries of a request hold, which decides what a refusal means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entries {
    Messages,
    Receipts,
}

/// Codes of a request that is refused as a whole because of its contents; nothing of it was taken.
const REFUSED_FOR_ITS_CONTENTS: [&str; 6] = [
    "BatchRequestTooLong",
    "InvalidAttributeValue",
    "InvalidMessageContents",
    "InvalidParameterValue",
    "MissingParameter",
    "ReceiptHandleIsInvalid",
];

impl Entries {
    /// An answer with two lists.
    pub(super) fn answered<'a>(
        self,
        asked: Range<usize>,
        successful: impl IntoIterator<Item = &'a str>,
        failed: &[BatchResultErrorEntry],
    ) -> Answer<(), EntryError> {
        let ours: HashMap<String, usize> = asked.clone().enumerate().map(|(at, index)| (id(index), at)).collect();
        let mut results: Vec<Option<Result<(), EntryError>>> = vec![None; asked.len()];
        let mut strange = 0;
        let failed = failed.iter().map(|f| (f.id(), Err(self.refusal(f.code(), f.sender_fault(), f.message()))));
        for (id, result) in successful.into_iter().map(|id| (id, Ok(()))).chain(failed) {
            let Some(at) = ours.get(id) else {
                strange += 1;
                continue;
            };
            results[*at] = Some(match results[*at].take() {
                Some(before) if before.is_ok() != result.is_ok() => {
                    temporary("the answer calls the entry taken and failed")
                }
                Some(before) => before,
                None => result,
            });
        }
        if strange > 0 {
            tracing::warn!(entries = strange, "sqs.answer_names_strangers");
        }
        let not_mentioned = || temporary("the answer does not mention the entry");
        Answer::Entries(results.into_iter().map(|result| result.unwrap_or_else(not_mentioned)).collect())
    }

    /// No answer, or an error for the whole request.
    pub(super) fn failed<E>(self, asked: &Range<usize>, error: &SdkError<E, HttpResponse>) -> Answer<(), EntryError>
    where
        E: ProvideErrorMetadata + Error + 'static,
    {
        let failure = Failure::of(error);
        if failure.is(&REFUSED_FOR_ITS_CONTENTS) && failure.status.is_none_or(|status| status < 500) {
            let code = failure.code.as_deref().unwrap_or_default();
            return Answer::Refused(self.refusal(code, true, Some(&failure.text)));
        }
        Answer::Entries(vec![Err(EntryError::Temporary(failure.to_string())); asked.len()])
    }

    /// Why one entry was not taken.
    fn refusal(self, code: &str, sender_fault: bool, message: Option<&str>) -> EntryError {
        let code = plain_code(code);
        let message = message.unwrap_or_default();
        if self == Self::Receipts && is_stale(&code, message) {
            return EntryError::StaleReceipt;
        }
        let text = storable(&format!("{code}: {message}"), 300);
        if !sender_fault || is_passing(&code) || is_for_the_operator(&code) {
            return EntryError::Temporary(text);
        }
        EntryError::Permanent(text)
    }
}

/// Old receipts have codes of their own, or show as a wrong value of the parameter ("The receipt handle has expired", "Message does not
/// exist or is not available for visibility timeout change").
fn is_stale(code: &str, message: &str) -> bool {
    let about_receipt = || message.contains("ReceiptHandle") || message.to_ascii_lowercase().contains("receipt handle");
    match code {
        "ReceiptHandleIsInvalid" | "MessageNotInflight" | "InvalidIdFormat" => true,
        "InvalidParameterValue" => about_receipt(),
        _ => false,
    }
}

fn temporary(why: &str) -> Result<(), EntryError> {
    Err(EntryError::Temporary(why.into()))
}

/// An entry's id within its request: where it stands in the call.
pub(super) fn id(index: usize) -> String {
    index.to_string()
}

#[cfg(test)]
#[path = "answers_tests.rs"]
mod tests;
