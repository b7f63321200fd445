//! The statements on `queue_messages`: one per request, whatever its size.
//!
//! Most of them commit without waiting for the disk (`set_config('synchronous_commit', 'off', true)`, for the one statement). What a
//! caller does with the answer is a commit of its own in the same log, and a log is never flushed with a hole in it: whoever's commit
//! waits for the disk also waits for what was written before. docs/decisions/0009-queue-commits-do-not-wait.md has the proof per caller.

use chrono::{DateTime, Utc};
use sqlx::{PgPool, types::Json};
use std::time::Duration;
use uuid::Uuid;
use waybill_core::ports::{OutgoingMessage, QueueDepth, queue_quotas};

/// What groups are called that are none; see the migration.
const NO_GROUP: &str = "-";

pub(super) struct Received {
    pub(super) id: i64,
    /// Of this queue, or of its dead-letter queue: then the message was moved and must not be handed out.
    pub(super) queue: String,
    pub(super) body: String,
    pub(super) attributes: Json<Vec<(String, String)>>,
    pub(super) sent_at: DateTime<Utc>,
    pub(super) receive_count: i32,
    pub(super) receipt: Option<Uuid>,
    /// The last group that this request served: where the next one begins.
    pub(super) last_group: Option<String>,
}

/// A message as an operator sees it; looking does not receive it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedMessage {
    pub id: String,
    pub body: String,
    pub attributes: Vec<(String, String)>,
    pub group: Option<String>,
    /// Of the first sending, also after the move to a dead-letter queue.
    pub sent_at: DateTime<Utc>,
    pub visible_at: DateTime<Utc>,
    pub receive_count: u32,
    /// Handed out now and not deleted yet.
    pub in_flight: bool,
}

/// What one reception asks for.
pub(super) struct Ask<'a> {
    pub(super) queue: &'a str,
    pub(super) max: usize,
    pub(super) visibility: Duration,
    /// Receptions after which a message moves to `dead`.
    pub(super) limit: i32,
    pub(super) dead: &'a str,
    /// The group after which the walk begins; empty: with the first.
    pub(super) after_group: &'a str,
}

/// `waits`: the sender has nothing else that remembers these messages, so the commit waits for the disk.
pub(super) async fn insert(pool: &PgPool, queue: &str, messages: &[&OutgoingMessage], waits: bool) -> sqlx::Result<()> {
    let bodies: Vec<&str> = messages.iter().map(|m| m.body.as_str()).collect();
    let attributes: Vec<Json<&[(String, String)]>> = messages.iter().map(|m| Json(m.attributes.as_slice())).collect();
    let groups: Vec<String> =
        messages.iter().map(|m| m.group.as_deref().map_or(NO_GROUP.into(), queue_quotas::group).into_owned()).collect();
    let delays: Vec<f64> = messages.iter().map(|m| m.delay.as_secs_f64()).collect();
    sqlx::query!(
        "INSERT INTO queue_messages (queue, body, attributes, group_id, visible_at)
         SELECT $1, m.body, m.attributes, m.group_id, now() + make_interval(secs => m.delay)
         FROM UNNEST($2::text[], $3::jsonb[], $4::text[], $5::float8[]) AS m (body, attributes, group_id, delay)
         WHERE $6 OR (SELECT set_config('synchronous_commit', 'off', true)) = 'off'",
        queue,
        &bodies as &[&str],
        &attributes as &[Json<&[(String, String)]>],
        &groups,
        &delays,
        waits
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Receives, and moves what was received often enough to the dead-letter queue, in one statement.
///
/// - `walk`: the groups that have messages, beginning after the one served last and once around. One index probe each, and lazy:
///   it stops as soon as `ready` has enough. A row with an empty group marks the turn from the last group to the first.
/// - `ready`: the first groups with a visible message, at most as many as messages are wanted.
/// - `turns`: of each of these its oldest visible messages, with their rank within the group. Five times as many as wanted, so that
///   receivers who run side by side and see the same ones do not leave empty-handed.
/// - `picked`: everybody's first message, then everybody's second, …; rows that another receiver has locked are skipped. The lateral
///   join locks row by row, in this order, and never more than are taken.
///
/// So a tenant with one message waits for at most one turn of the walk, whatever the backlog of others. `ORDER BY visible_at` beside
/// each `LIMIT` keeps the planner on the index; without it, it may read the whole table to find one row.
pub(super) async fn receive(pool: &PgPool, ask: &Ask<'_>) -> sqlx::Result<Vec<Received>> {
    sqlx::query_as!(
        Received,
        r#"WITH RECURSIVE walk (group_id, step, wrapped) AS (
            SELECT $2::text COLLATE "C", 0, false
            UNION ALL
            SELECT COALESCE(next.group_id, ''), walk.step + 1, walk.wrapped OR next.group_id IS NULL
            FROM walk LEFT JOIN LATERAL (
                SELECT m.group_id FROM queue_messages m
                WHERE m.queue = $1 AND m.group_id > walk.group_id ORDER BY m.group_id LIMIT 1
            ) next ON true
            WHERE NOT walk.wrapped OR next.group_id <= $2
        ),
        ready AS MATERIALIZED (
            SELECT walk.group_id, walk.step
            FROM walk CROSS JOIN LATERAL (
                SELECT 1 FROM queue_messages m
                WHERE m.queue = $1 AND m.group_id = walk.group_id AND m.visible_at <= now() ORDER BY m.visible_at LIMIT 1
            ) visible
            WHERE walk.step > 0
            LIMIT $3
        ),
        turns AS (
            SELECT mine.id, mine.turn, ready.step
            FROM ready CROSS JOIN LATERAL (
                SELECT oldest.id, row_number() OVER (ORDER BY oldest.visible_at) AS turn
                FROM (
                    SELECT m.id, m.visible_at FROM queue_messages m
                    WHERE m.queue = $1 AND m.group_id = ready.group_id AND m.visible_at <= now()
                    ORDER BY m.visible_at LIMIT (SELECT 5 * $3 / count(*) + 1 FROM ready)
                ) oldest
            ) mine
        ),
        picked AS (
            SELECT locked.id
            FROM (SELECT id FROM turns ORDER BY turn, step) candidate CROSS JOIN LATERAL (
                SELECT m.id FROM queue_messages m
                WHERE m.id = candidate.id AND m.queue = $1 AND m.visible_at <= now()
                FOR UPDATE SKIP LOCKED
            ) locked
            LIMIT $3
        )
        UPDATE queue_messages m SET
            queue = CASE WHEN m.receive_count >= $5 THEN $6 ELSE m.queue END,
            receive_count = CASE WHEN m.receive_count >= $5 THEN 0 ELSE m.receive_count + 1 END,
            visible_at = CASE WHEN m.receive_count >= $5 THEN now() ELSE now() + make_interval(secs => $4) END,
            receipt = CASE WHEN m.receive_count >= $5 THEN NULL ELSE gen_random_uuid() END
        WHERE m.id = ANY (ARRAY(SELECT id FROM picked)) AND (SELECT set_config('synchronous_commit', 'off', true)) = 'off'
        RETURNING m.id, m.queue, m.body, m.attributes AS "attributes: Json<Vec<(String, String)>>", m.sent_at, m.receive_count,
            m.receipt, (SELECT group_id FROM ready ORDER BY step DESC LIMIT 1) AS last_group"#,
        ask.queue,
        ask.after_group,
        i64::try_from(ask.max).unwrap_or(1),
        ask.visibility.as_secs_f64(),
        ask.limit,
        ask.dead
    )
    .fetch_all(pool)
    .await
}

/// One answer per pair: whether it is gone. A message that is not there any more was deleted before, which is as good.
pub(super) async fn delete(pool: &PgPool, queue: &str, ids: &[i64], receipts: &[Uuid]) -> sqlx::Result<Vec<bool>> {
    sqlx::query_scalar!(
        r#"WITH asked AS (
            SELECT * FROM UNNEST($2::bigint[], $3::uuid[]) WITH ORDINALITY AS a (id, receipt, position)
            WHERE (SELECT set_config('synchronous_commit', 'off', true)) = 'off'
        ),
        deleted AS (
            DELETE FROM queue_messages m USING asked
            WHERE m.id = asked.id AND m.queue = $1 AND m.receipt = asked.receipt
            RETURNING m.id
        )
        -- An array: as a join it would compare every row with every other one.
        SELECT asked.id = ANY (ARRAY(SELECT id FROM deleted)) OR there.id IS NULL AS "gone!"
        FROM asked
        LEFT JOIN queue_messages there ON there.id = asked.id
        ORDER BY asked.position"#,
        queue,
        ids,
        receipts
    )
    .fetch_all(pool)
    .await
}

/// One answer per triple: whether the message was in flight under this receipt and is hidden for the new time now.
pub(super) async fn change(
    pool: &PgPool,
    queue: &str,
    ids: &[i64],
    receipts: &[Uuid],
    seconds: &[f64],
) -> sqlx::Result<Vec<bool>> {
    sqlx::query_scalar!(
        r#"WITH asked AS (
            SELECT * FROM UNNEST($2::bigint[], $3::uuid[], $4::float8[]) WITH ORDINALITY AS a (id, receipt, seconds, position)
            WHERE (SELECT set_config('synchronous_commit', 'off', true)) = 'off'
        ),
        changed AS (
            UPDATE queue_messages m SET visible_at = now() + make_interval(secs => asked.seconds)
            FROM asked
            WHERE m.id = asked.id AND m.queue = $1 AND m.receipt = asked.receipt AND m.visible_at > now()
            RETURNING m.id, m.receipt
        )
        SELECT changed.id IS NOT NULL AS "changed!"
        FROM asked LEFT JOIN changed ON changed.id = asked.id AND changed.receipt = asked.receipt
        ORDER BY asked.position"#,
        queue,
        ids,
        receipts,
        seconds
    )
    .fetch_all(pool)
    .await
}

pub(super) async fn depth(pool: &PgPool, queue: &str) -> sqlx::Result<QueueDepth> {
    let row = sqlx::query!(
        r#"SELECT count(*) FILTER (WHERE visible_at <= now()) AS "visible!",
            count(*) FILTER (WHERE visible_at > now() AND receipt IS NOT NULL) AS "in_flight!",
            count(*) FILTER (WHERE visible_at > now() AND receipt IS NULL) AS "delayed!",
            EXTRACT(EPOCH FROM now() - min(sent_at) FILTER (WHERE visible_at <= now() OR receipt IS NULL))::float8 AS age
        FROM queue_messages WHERE queue = $1"#,
        queue
    )
    .fetch_one(pool)
    .await?;
    Ok(QueueDepth {
        visible: row.visible.unsigned_abs(),
        in_flight: row.in_flight.unsigned_abs(),
        delayed: row.delayed.unsigned_abs(),
        oldest_age: row.age.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default()),
    })
}

pub(super) async fn peek(pool: &PgPool, queue: &str, limit: i64) -> sqlx::Result<Vec<QueuedMessage>> {
    let rows = sqlx::query!(
        r#"SELECT id, body, attributes AS "attributes: Json<Vec<(String, String)>>", group_id, sent_at, visible_at, receive_count,
            visible_at > now() AND receipt IS NOT NULL AS "in_flight!"
        FROM queue_messages WHERE queue = $1 ORDER BY id LIMIT $2"#,
        queue,
        limit
    )
    .fetch_all(pool)
    .await?;
    let shown = rows.into_iter().map(|row| QueuedMessage {
        id: row.id.to_string(),
        body: row.body,
        attributes: row.attributes.0,
        group: (row.group_id != NO_GROUP).then_some(row.group_id),
        sent_at: row.sent_at,
        visible_at: row.visible_at,
        receive_count: row.receive_count.unsigned_abs(),
        in_flight: row.in_flight,
    });
    Ok(shown.collect())
}

/// Tells other processes. Writes nothing, so its commit waits for no disk while it holds the server-wide notification lock.
pub(super) async fn notify(pool: &PgPool, channel: &str, payload: &str) -> sqlx::Result<()> {
    sqlx::query("SELECT pg_notify($1, $2)").bind(channel).bind(payload).execute(pool).await?;
    Ok(())
}
