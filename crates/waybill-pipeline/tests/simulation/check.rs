//! What has to hold, whatever a seed brings.

use crate::{
    database::Database,
    outside::{Acceptance, Mutant, Outside},
};
use sqlx::Row as _;
use std::collections::{BTreeMap, HashMap};
use uuid::Uuid;
use waybill_core::{
    ids::DeliveryId,
    message::{DeliveryMessage, Parsed, parse},
    ports::QueueName,
    state::DeliveryState,
};

/// Rows that contradict the protocol, as texts.
const CONTRADICTIONS: &str = "
    SELECT 'the ledger has a gap or lags: ' || d.id FROM deliveries d
    LEFT JOIN LATERAL (SELECT count(*) AS n, min(version) AS low, max(version) AS high FROM ledger WHERE delivery_id = d.id) l ON true
    WHERE (l.n, l.low, l.high) IS DISTINCT FROM (d.version::bigint, 1, d.version)
    UNION ALL
    SELECT 'the ledger ends with another state: ' || d.id FROM deliveries d
    JOIN ledger l ON l.delivery_id = d.id AND l.version = d.version WHERE l.state <> d.state
    UNION ALL
    SELECT 'an identity in progress whose delivery is not: ' || d.id || ' ' || d.state FROM sends s
    JOIN deliveries d ON d.id = s.delivery_id WHERE (s.state = 'claimed' AND d.state <> 'SENDING') OR (s.state = 'unknown' AND d.state <> 'UNKNOWN')
    UNION ALL
    SELECT 'an accepted delivery whose identity is not sent: ' || d.id FROM deliveries d
    LEFT JOIN sends s ON s.tenant_id = d.tenant_id AND s.identity = d.identity
    WHERE d.state IN ('SENT', 'DELIVERED', 'BOUNCED', 'COMPLAINED') AND s.state IS DISTINCT FROM 'sent'
    UNION ALL
    SELECT 'an open attempt of a delivery that nobody is sending: ' || d.id || ' ' || d.state FROM attempts a
    JOIN deliveries d ON d.id = a.delivery_id WHERE a.ended_at IS NULL AND d.state <> 'SENDING'
    UNION ALL
    SELECT 'a FAILED delivery without a reason: ' || id FROM deliveries WHERE state = 'FAILED' AND reason IS NULL
    UNION ALL
    SELECT 'a duplicate of what was not sent: ' || d.id FROM deliveries d JOIN deliveries o ON o.id = d.other_id
    WHERE d.state = 'DUPLICATE' AND o.state NOT IN ('SENT', 'DELIVERED', 'BOUNCED', 'COMPLAINED')
    UNION ALL
    SELECT 'a routed job without deliveries and without a reason: ' || j.id FROM jobs j
    WHERE j.state <> 'PENDING' AND j.reason IS NULL AND NOT EXISTS (SELECT FROM deliveries WHERE job_id = j.id)";

const DELIVERIES: &str = "
    SELECT d.id, d.identity, d.lineage, d.state, j.revision_number, j.revision_by_content
    FROM deliveries d JOIN jobs j ON j.id = d.job_id ORDER BY d.id";

/// Attempts that ended without telling anybody what came of them.
const SILENT: &str = "SELECT id FROM attempts WHERE outcome IN ('crashed', 'late')";

/// What a seed did, for the sum over all seeds.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) seeds: u64,
    pub(crate) steps: u64,
    pub(crate) deliveries: u64,
    pub(crate) sent: u64,
    pub(crate) duplicates_stopped: u64,
    pub(crate) duplicates_unknown: u64,
    pub(crate) unknown: u64,
    pub(crate) kills: u64,
    pub(crate) freezes: u64,
    pub(crate) faults: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.steps += other.steps;
        self.deliveries += other.deliveries;
        self.sent += other.sent;
        self.duplicates_stopped += other.duplicates_stopped;
        self.duplicates_unknown += other.duplicates_unknown;
        self.unknown += other.unknown;
        self.kills += other.kills;
        self.freezes += other.freezes;
        self.faults += other.faults;
    }
}

struct Delivery {
    identity: Vec<u8>,
    lineage: Option<Vec<u8>>,
    state: DeliveryState,
    revision: Option<i64>,
    by_content: bool,
    /// How often nobody could know whether a provider had it.
    unknown: u64,
}

/// At the end of a seed, when everything has healed.
///
/// # Errors
/// What does not hold.
pub(crate) fn end(database: &Database, outside: &Outside) -> Result<Counts, String> {
    let found: Vec<String> = database.run(sqlx::query_scalar(CONTRADICTIONS).fetch_all(database.pool())).unwrap();
    // Rows can't agree with what was taken away; that mutant has to be found by its mails.
    if !found.is_empty() && outside.mutant != Some(Mutant::ClaimsAreForgotten) {
        return Err(found.join("; "));
    }
    legal_moves(database)?;
    for queue in [QueueName::Main, QueueName::Delivery] {
        let left = outside.queue.peek(queue);
        if !left.is_empty() {
            return Err(format!("messages are left in {}: {left:?}", queue.as_str()));
        }
    }
    let deliveries = deliveries(database, outside)?;
    let accepted = outside.accepted();
    let duplicates_unknown = once(&deliveries, &accepted)?;
    newer_stays(&deliveries, &accepted)?;
    for (id, delivery) in &deliveries {
        if delivery.state.is_accepted() && accepted.iter().all(|a| a.delivery != *id) {
            return Err(format!("{id} is {} and no provider accepted it", delivery.state));
        }
    }
    let count = |test: &dyn Fn(&Delivery) -> bool| deliveries.values().filter(|d| test(d)).count() as u64;
    Ok(Counts {
        deliveries: deliveries.len() as u64,
        sent: count(&|d| d.state.is_accepted()),
        duplicates_stopped: count(&|d| d.state == DeliveryState::Duplicate),
        duplicates_unknown,
        unknown: deliveries.values().map(|d| d.unknown).sum(),
        ..Counts::default()
    })
}

fn deliveries(database: &Database, outside: &Outside) -> Result<BTreeMap<DeliveryId, Delivery>, String> {
    let rows = database.run(sqlx::query(DELIVERIES).fetch_all(database.pool())).unwrap();
    let delivery = |row: &sqlx::postgres::PgRow| Delivery {
        identity: row.get("identity"),
        lineage: row.get("lineage"),
        state: DeliveryState::parse(row.get("state")).unwrap(),
        revision: row.get("revision_number"),
        by_content: row.get("revision_by_content"),
        unknown: 0,
    };
    let mut deliveries: BTreeMap<_, _> = rows.iter().map(|row| (DeliveryId(row.get("id")), delivery(row))).collect();
    let silent: Vec<Uuid> = database.run(sqlx::query_scalar(SILENT).fetch_all(database.pool())).unwrap();
    for (attempt, (id, calls)) in outside.calls() {
        let Some(delivery) = deliveries.get_mut(&id) else { return Err(format!("{id} was sent and has no row")) };
        if calls.accepted > 1 + calls.unknown {
            return Err(format!(
                "{id}: one attempt had it accepted {} times, {} unknown",
                calls.accepted, calls.unknown
            ));
        }
        delivery.unknown += if silent.contains(&attempt.0) { calls.accepted.max(1) } else { calls.unknown };
    }
    Ok(deliveries)
}

fn legal_moves(database: &Database) -> Result<(), String> {
    let ledger = sqlx::query("SELECT delivery_id, state FROM ledger ORDER BY delivery_id, version");
    let rows = database.run(ledger.fetch_all(database.pool())).unwrap();
    let mut before: HashMap<Uuid, DeliveryState> = HashMap::new();
    for row in rows {
        let state = DeliveryState::parse(row.get("state")).unwrap();
        let id: Uuid = row.get("delivery_id");
        if let Some(from) = before.insert(id, state)
            && !from.may_become(state)
        {
            return Err(format!("{id}: {from} -> {state}"));
        }
    }
    Ok(())
}

/// One acceptance per identity, and one more for each time that nobody could know. Content that comes back after other content went out
/// is sent again. Returns how many went out because nobody could know.
fn once(deliveries: &BTreeMap<DeliveryId, Delivery>, accepted: &[Acceptance]) -> Result<u64, String> {
    let mut unknown: BTreeMap<&[u8], u64> = BTreeMap::new();
    for delivery in deliveries.values() {
        *unknown.entry(&delivery.identity).or_default() += delivery.unknown;
    }
    let mut repeats: BTreeMap<&[u8], u64> = BTreeMap::new();
    // What went out last: by identity, and, where content decides, by lineage.
    let mut seen: HashMap<&[u8], &[u8]> = HashMap::new();
    for acceptance in accepted {
        let delivery = &deliveries[&acceptance.delivery];
        let identity = delivery.identity.as_slice();
        let thing = delivery.lineage.as_deref().filter(|_| delivery.by_content).unwrap_or(identity);
        if seen.insert(thing, identity) == Some(identity) {
            *repeats.entry(identity).or_default() += 1;
        }
    }
    for (identity, repeats) in &repeats {
        if *repeats > unknown[identity] {
            let ids: Vec<_> = deliveries.iter().filter(|(_, d)| d.identity == *identity).map(|(id, _)| id).collect();
            let unknown = unknown[identity];
            return Err(format!("{repeats} repeated mails of one identity, {unknown} unknown: {ids:?}, {accepted:?}"));
        }
    }
    Ok(repeats.values().sum())
}

/// An older revision never goes out after a newer one, where all outcomes were known.
fn newer_stays(deliveries: &BTreeMap<DeliveryId, Delivery>, accepted: &[Acceptance]) -> Result<(), String> {
    let mut newest: HashMap<&[u8], (i64, DeliveryId)> = HashMap::new();
    let doubtful: Vec<&[u8]> =
        deliveries.values().filter(|d| d.unknown > 0).filter_map(|d| d.lineage.as_deref()).collect();
    for acceptance in accepted {
        let delivery = &deliveries[&acceptance.delivery];
        let (Some(lineage), Some(revision)) = (delivery.lineage.as_deref(), delivery.revision) else { continue };
        if doubtful.contains(&lineage) {
            continue;
        }
        let before = newest.entry(lineage).or_insert((revision, acceptance.delivery));
        if before.0 > revision {
            return Err(format!(
                "revision {revision} ({}) went out after {} ({})",
                acceptance.delivery, before.0, before.1
            ));
        }
        *before = (revision, acceptance.delivery);
    }
    Ok(())
}

/// Claimable, and nothing will look at it soon. What was put off is due in minutes, unless it waits for its ordering key, or for what only a
/// person can decide (then it looks once a day). One that the sweeper has just released for what was put off before is due late and about to
/// be queued (seed 394: its old message is deleted in between); from then on `requeues` is what remembers it.
const FORGOTTEN: &str = "
    SELECT d.id || ' (' || d.state || ', due in ' || d.due_at - sim.now() || ', ' || coalesce(d.detail, '') || ', ' || j.state || ')'
    FROM deliveries d JOIN jobs j ON j.id = d.job_id
    WHERE d.id = ANY($1) AND d.state IN ('PENDING', 'WAITING_DOCUMENT') AND j.ordering_due_at IS NULL AND d.requeues = 0
      AND d.due_at > sim.now() + interval '300 seconds'
      AND NOT ($2 AND EXISTS (
          SELECT FROM deliveries h JOIN ledger l ON l.delivery_id = h.id AND l.state = 'UNKNOWN'
          WHERE h.identity = d.identity OR h.lineage = d.lineage))";

/// After each step: no delivery's last message was deleted without its row remembering it.
///
/// # Errors
/// Names the delivery.
pub(crate) fn remembered(database: &Database, outside: &Outside, holds: bool) -> Result<(), String> {
    let deleted: Vec<Uuid> = outside.take_deleted().iter().filter_map(|body| delivery_of(body)).collect();
    if deleted.is_empty() {
        return Ok(());
    }
    let queued: Vec<Uuid> =
        outside.queue.peek(QueueName::Delivery).iter().filter_map(|shown| delivery_of(&shown.body)).collect();
    let doubtful: Vec<Uuid> = deleted.into_iter().filter(|id| !queued.contains(id)).collect();
    let forgotten: Vec<String> =
        database.run(sqlx::query_scalar(FORGOTTEN).bind(&doubtful).bind(holds).fetch_all(database.pool())).unwrap();
    match forgotten.first() {
        Some(row) => Err(format!("the last message of {row} was deleted, and its row does not remember it")),
        None => Ok(()),
    }
}

fn delivery_of(body: &str) -> Option<Uuid> {
    match parse::<DeliveryMessage>(body) {
        Parsed::Message(message) => Some(message.delivery.0),
        Parsed::Newer(_) | Parsed::Malformed(_) => None,
    }
}
