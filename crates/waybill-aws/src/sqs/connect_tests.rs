use super::*;

const POLICY: &str =
    r#"{"deadLetterTargetArn":"arn:aws:sqs:eu-central-1:111122223333:waybill-main-dead","maxReceiveCount":"5"}"#;

fn main_queue() -> Found {
    let pairs = [
        (QueueAttributeName::MaximumMessageSize, "1048576"),
        (QueueAttributeName::VisibilityTimeout, "180"),
        (QueueAttributeName::MessageRetentionPeriod, "345600"),
        (QueueAttributeName::RedrivePolicy, POLICY),
    ];
    read(&pairs.into_iter().map(|(name, value)| (name, value.to_owned())).collect())
}

fn dead_queue() -> Found {
    Found { retention_s: Some(1_209_600), ..Found::default() }
}

fn refusal(found: &Found, dead: &Found) -> String {
    check(QueueName::Main, "waybill", found, Some(dead)).unwrap_err().to_string()
}

#[test]
fn a_queue_as_planned_is_taken_and_differs_in_nothing() {
    assert_eq!(check(QueueName::Main, "waybill", &main_queue(), Some(&dead_queue())), Ok(()));
    assert_eq!(check(QueueName::MainDead, "waybill", &dead_queue(), None), Ok(()));
    assert_eq!(differences(QueueName::Main, &main_queue(), &Timings::default()), [""; 0]);
    assert_eq!(differences(QueueName::MainDead, &dead_queue(), &Timings::default()), [""; 0]);
}

#[test]
fn a_queue_without_a_way_out_is_refused_by_name() {
    let none = Found { redrive: None, ..main_queue() };
    assert!(refusal(&none, &dead_queue()).starts_with("queue waybill-main: has no RedrivePolicy"));
    let elsewhere = Found { redrive: Some(("other-dead".into(), Some(5))), ..main_queue() };
    let text = refusal(&elsewhere, &dead_queue());
    assert!(text.contains("other-dead") && text.contains("waybill-main-dead"), "{text}");
}

#[test]
fn sqs_06_a_dead_letter_queue_that_forgets_as_soon_as_its_source_is_refused() {
    let text = refusal(&main_queue(), &Found { retention_s: Some(345_600), ..Found::default() });
    assert!(text.contains("345600") && text.contains("waybill-main-dead"), "{text}");
}

#[test]
fn what_differs_is_told_with_both_numbers() {
    let found = Found {
        max_bytes: Some(262_144),
        visibility_s: Some(30),
        retention_s: Some(60),
        redrive: Some(("waybill-main-dead".into(), Some(3))),
    };
    let told = differences(QueueName::Main, &found, &Timings::default()).join("\n");
    for part in
        ["VisibilityTimeout is 30,", "expects 180", "MessageRetentionPeriod is 60", "maxReceiveCount is 3", "262144"]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
}
