use super::*;

fn failed(id: &str, code: &str, sender_fault: bool) -> BatchResultErrorEntry {
    BatchResultErrorEntry::builder().id(id).code(code).sender_fault(sender_fault).message("m").build().unwrap()
}

fn entries(answer: Answer<(), EntryError>) -> Vec<Result<(), EntryError>> {
    match answer {
        Answer::Entries(entries) => entries,
        Answer::Refused(error) => panic!("refused: {error}"),
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Temporary,
    Permanent,
    Stale,
}

fn kind(error: &EntryError) -> Kind {
    match error {
        EntryError::Temporary(_) => Kind::Temporary,
        EntryError::Permanent(_) => Kind::Permanent,
        EntryError::StaleReceipt => Kind::Stale,
    }
}

#[test]
fn every_code_of_a_failed_entry_has_its_meaning() {
    use Entries::{Messages, Receipts};
    use Kind::{Permanent, Stale, Temporary};
    let expired = "Value AQEB for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.";
    let gone = "Value AQEB for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not available \
                for visibility timeout change.";
    let beyond = "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]";
    let table = [
        (Messages, "InternalError", false, "", Temporary),
        (Messages, "SomethingNew", false, "", Temporary),
        (Messages, "SomethingNew", true, "", Permanent),
        (Messages, "InvalidMessageContents", true, "", Permanent),
        (Messages, "InvalidParameterValue", true, "Message must be shorter than 262144 bytes.", Permanent),
        (Messages, "AWS.SimpleQueueService.UnsupportedOperation", true, "", Permanent),
        (Messages, "RequestThrottled", true, "", Temporary),
        (Messages, "ThrottlingException", true, "", Temporary),
        (Messages, "Throttling", true, "", Temporary),
        (Messages, "KMS.ThrottlingException", true, "", Temporary),
        (Messages, "KmsThrottled", true, "", Temporary),
        (Messages, "OverLimit", true, "", Temporary),
        (Messages, "ServiceUnavailable", false, "", Temporary),
        (Messages, "AccessDenied", true, "", Temporary),
        (Messages, "KMS.DisabledException", true, "", Temporary),
        (Messages, "AWS.SimpleQueueService.NonExistentQueue", true, "", Temporary),
        (Messages, "ReceiptHandleIsInvalid", true, "", Permanent),
        (Receipts, "ReceiptHandleIsInvalid", true, "", Stale),
        (Receipts, "MessageNotInflight", true, "", Stale),
        (Receipts, "AWS.SimpleQueueService.MessageNotInflight", true, "", Stale),
        (Receipts, "InvalidIdFormat", true, "", Stale),
        (Receipts, "InvalidParameterValue", true, expired, Stale),
        (Receipts, "InvalidParameterValue", true, gone, Stale),
        (Receipts, "InvalidParameterValue", true, beyond, Permanent),
        (Receipts, "InternalError", false, "", Temporary),
        (Receipts, "RequestThrottled", true, "", Temporary),
    ];
    for (of, code, sender_fault, message, expected) in table {
        let error = of.refusal(code, sender_fault, Some(message));
        assert_eq!(kind(&error), expected, "{of:?} {code} {sender_fault} {message}: {error}");
    }
}

#[test]
fn sqs_01_what_is_mentioned_twice_or_not_at_all_or_is_not_ours() {
    let bad = [failed("21", "InternalError", false), failed("22", "Foreign", true), failed("23", "Foreign", true)];
    let good = ["20", "20", "22", "99", "", "two"];
    let results = entries(Entries::Messages.answered(20..25, good, &bad));
    let kinds: Vec<_> = results.iter().map(|r| r.as_ref().map_err(kind)).collect();
    assert_eq!(
        kinds,
        [Ok(&()), Err(Kind::Temporary), Err(Kind::Temporary), Err(Kind::Permanent), Err(Kind::Temporary)]
    );
    assert_eq!(results[4], Err(EntryError::Temporary("the answer does not mention the entry".into())));
}

#[test]
fn an_entry_s_text_stays_short() {
    let error = Entries::Messages.refusal("InvalidMessageContents", true, Some(&"\0x".repeat(5000)));
    assert!(error.to_string().len() < 1500 && !error.to_string().contains('\0'));
}
