//! What a seed is about: the events that are posted, and what may go wrong.

use crate::{
    dice::Dice,
    gate::{Fault, Kind, Verdict},
};
use serde_json::{Value, json};
use waybill_core::{
    event::{Event, EventLimits},
    json,
    ports::FeedbackKind,
    route::RouteSpec,
};

pub(crate) struct Plan {
    pub(crate) events: Vec<Event>,
    pub(crate) route: RouteSpec,
    /// What the first provider tells about a mail that it accepted; none: its events don't reach us.
    pub(crate) feedback: Vec<FeedbackKind>,
    /// Steps before everything heals.
    pub(crate) steps: usize,
    /// Percent of the calls that meet a fault.
    pub(crate) faults: u32,
    pub(crate) kills: usize,
    pub(crate) freezes: usize,
    /// Times at which Redis forgets its locks.
    pub(crate) flushes: usize,
}

const PEOPLE: [&str; 4] = ["ana@example.test", "Ana@Example.test", "ben@example.test", "cleo@example.test"];

impl Plan {
    pub(crate) fn of(dice: &Dice) -> Self {
        let ordered = dice.percent(20);
        let revised = dice.percent(40);
        let mut events: Vec<Value> = Vec::new();
        for number in 0..1 + dice.below(4) {
            match events.last() {
                // The same post again.
                Some(before) if dice.percent(10) => events.push(before.clone()),
                _ => events.push(event(dice, number, ordered, revised)),
            }
        }
        let wired = dice.percent(60);
        let feedback = match dice.below(5) {
            _ if !wired => Vec::new(),
            0 => vec![FeedbackKind::Accepted, FeedbackKind::Bounced],
            1 => vec![FeedbackKind::Complained, FeedbackKind::Delivered],
            _ => vec![FeedbackKind::Accepted, FeedbackKind::Delivered],
        };
        Self {
            events: events.iter().map(parsed).collect(),
            route: route(dice),
            feedback,
            steps: 60 + dice.below(140),
            faults: *dice.pick(&[0, 3, 10, 30]),
            kills: *dice.pick(&[0, 0, 1, 2, 4]),
            freezes: *dice.pick(&[0, 0, 0, 1, 2]),
            flushes: *dice.pick(&[0, 0, 0, 1, 2]),
        }
    }

    /// Whether an unknown outcome waits for a person.
    pub(crate) fn holds(&self) -> bool {
        self.route.on_unknown.as_deref() == Some("hold")
    }

    /// How a call goes.
    pub(crate) fn verdict(&self, dice: &Dice, kind: Kind) -> Verdict {
        let fault = (dice.percent(self.faults)).then(|| fault(dice, kind)).flatten();
        let answered = matches!(kind, Kind::Send | Kind::Receive { .. } | Kind::Delete | Kind::Lock | Kind::Provider);
        Verdict { fault, hold_answer: answered && dice.percent(25) }
    }
}

fn fault(dice: &Dice, kind: Kind) -> Option<Fault> {
    let choices: &[Fault] = match kind {
        Kind::Statement | Kind::Answer => &[],
        Kind::Send => &[Fault::Refused, Fault::AnswerLost, Fault::Late(1 + dice.below(200) as u64)],
        Kind::Receive { .. } => &[Fault::Refused, Fault::AnswerLost, Fault::Twice, Fault::Twice, Fault::One],
        Kind::Delete | Kind::Lock | Kind::Object => &[Fault::Refused, Fault::AnswerLost],
        Kind::Extend | Kind::Render => &[Fault::Refused],
        Kind::Provider => &[
            Fault::Refused,
            Fault::Refused,
            Fault::AnswerLost,
            Fault::AnswerLost,
            Fault::NoId,
            Fault::Silence,
            Fault::Recipient,
            Fault::Account,
            Fault::Throttled,
        ],
    };
    (!choices.is_empty()).then(|| *dice.pick(choices))
}

fn route(dice: &Dice) -> RouteSpec {
    let policy = dice.pick(&[None, Some("reconcile"), Some("failover"), Some("hold")]);
    serde_json::from_value(json!({
        "channel": "email",
        "document": if dice.percent(25) { json!("purchase_order") } else { Value::Null },
        "on_unknown": policy,
        "mail": {"from": "no-reply@acme.example", "subject": "Order {subject}", "text": "Hello {name}"},
    }))
    .unwrap()
}

fn event(dice: &Dice, number: usize, ordered: bool, revised: bool) -> Value {
    let first = dice.below(PEOPLE.len());
    let recipients: Vec<Value> = (0..1 + dice.below(2))
        .map(|n| json!({"email": PEOPLE[(first + 2 * n) % PEOPLE.len()], "name": "Ana"}))
        .collect();
    let mut event = json!({
        "id": format!("e{number}"), "source": "/orders", "type": "order.created", "recipients": recipients,
        "data": {"total": dice.below(2)},
    });
    if dice.percent(80) {
        event["subject"] = json!(format!("PO-{}", dice.below(2)));
        if revised {
            event["revision"] = json!((1 + dice.below(3)).to_string());
        }
    }
    if ordered {
        event["ordering_key"] = json!("line");
    }
    if dice.percent(5) {
        event["expires_at"] = json!("2026-01-01T00:10:00Z");
    }
    event
}

fn parsed(value: &Value) -> Event {
    let json = json::parse(value.to_string().as_bytes()).unwrap();
    Event::from_json(&json, &EventLimits::default()).unwrap()
}
