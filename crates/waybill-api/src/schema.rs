//! Pieces of the OpenAPI document that come from the core's own lists, so that they can't drift from them.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Serialize, Serializer};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        RefOr,
        schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, SchemaType, Type},
    },
};
use waybill_core::state::{DeliveryState, DocumentState, JobState, Reason};

fn words<'a>(words: impl Iterator<Item = &'a str>, nullable: bool) -> RefOr<Schema> {
    let mut values: Vec<Option<&str>> = words.map(Some).collect();
    let mut kind = SchemaType::Type(Type::String);
    if nullable {
        values.push(None);
        kind = SchemaType::Array(vec![Type::String, Type::Null]);
    }
    RefOr::T(Schema::Object(ObjectBuilder::new().schema_type(kind).enum_values(Some(values)).build()))
}

pub(crate) fn job_state() -> RefOr<Schema> {
    words(JobState::ALL.iter().map(|s| s.as_str()), false)
}

pub(crate) fn delivery_state() -> RefOr<Schema> {
    words(DeliveryState::ALL.iter().map(|s| s.as_str()), false)
}

pub(crate) fn document_state() -> RefOr<Schema> {
    words(DocumentState::ALL.iter().map(|s| s.as_str()), false)
}

pub(crate) fn reason() -> RefOr<Schema> {
    words(Reason::ALL.iter().map(|r| r.as_str()), true)
}

/// RFC 3339, UTC, milliseconds: `2026-11-30T09:00:00.000Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub DateTime<Utc>);

impl From<DateTime<Utc>> for Timestamp {
    fn from(time: DateTime<Utc>) -> Self {
        Self(time)
    }
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.to_rfc3339_opts(SecondsFormat::Millis, true))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl PartialSchema for Timestamp {
    fn schema() -> RefOr<Schema> {
        let object = ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::String))
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .description(Some("RFC 3339, UTC, milliseconds"))
            .examples(["2026-11-30T09:00:00.000Z"]);
        RefOr::T(Schema::Object(object.build()))
    }
}

impl ToSchema for Timestamp {}
