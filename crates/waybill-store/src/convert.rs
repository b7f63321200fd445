//! Between our types and column types.

use std::time::Duration;
use uuid::Uuid;
use waybill_core::{identity::Identity, ids::DeliveryId, text::storable};

/// For `$n * interval '1 second'`. A provider's `Retry-After` may be any number: nothing of ours waits for more than ten years, and a
/// timestamp that overflows would fail the whole slice.
pub(crate) fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64().min(10.0 * 365.0 * 86_400.0)
}

/// From a column that is never negative.
pub(crate) fn to_u32(value: i32) -> u32 {
    u32::try_from(value).unwrap_or_default()
}

pub(crate) fn to_i32(value: impl TryInto<i32>) -> i32 {
    value.try_into().unwrap_or(i32::MAX)
}

pub(crate) fn uuids(ids: &[DeliveryId]) -> Vec<Uuid> {
    ids.iter().map(|id| id.0).collect()
}

/// A JSON value that `jsonb` can hold: its texts lose U+0000.
pub(crate) fn storable_json(value: &serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::String(s) => Value::String(storable(s, usize::MAX)),
        Value::Array(items) => Value::Array(items.iter().map(storable_json).collect()),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(k, v)| (storable(k, usize::MAX), storable_json(v))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// # Errors
/// Only for a row that the column's CHECK constraint would not take.
pub(crate) fn identity(column: &[u8]) -> Result<Identity, crate::StoreError> {
    Identity::from_slice(column)
        .ok_or_else(|| sqlx::Error::Decode("an identity of another length than 32 octets".into()).into())
}
