//! What a fresh local database starts with, and one that `waybill seed` is pointed at: a tenant, its key, and routes.

use anyhow::Context as _;
use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _, path::Path};
use uuid::Uuid;
use waybill_core::{
    clock::Chance as _,
    ids::{KeyId, RouteId, TenantId},
    mail::MailTemplate,
    route::RouteSpec,
};
use waybill_crypto::ApiKey;
use waybill_store::{NewApiKey, Store};

use crate::system::SystemChance;

/// Fixed, so that seeding again finds what is there.
const TENANT: TenantId = TenantId(Uuid::from_u128(0x0193_0000_0000_7000_8000_0000_0000_0001));
const ORDER_ROUTE: RouteId = RouteId(Uuid::from_u128(0x0193_0000_0000_7000_8000_0000_0000_0002));
const NOTE_ROUTE: RouteId = RouteId(Uuid::from_u128(0x0193_0000_0000_7000_8000_0000_0000_0003));

/// All scopes there are: it is a laptop.
const SCOPES: [&str; 4] = ["events:write", "jobs:read", "jobs:write", "ops"];

/// Seeds what is missing and returns the API key.
pub(crate) async fn seed(store: &Store, dir: &Path) -> anyhow::Result<String> {
    store.ensure_tenant(TENANT, "dev", None).await.context("seeding the tenant")?;
    let routes = store.list_routes(TENANT).await.context("reading routes")?;
    for (id, event_type, spec) in [(ORDER_ROUTE, "order.placed", order()), (NOTE_ROUTE, "note.posted", note())] {
        if !routes.iter().any(|route| route.id == id && route.spec == spec) {
            store.put_route(TENANT, id, event_type, &spec).await.context("seeding a route")?;
        }
    }
    key(store, dir).await
}

fn mail(subject: &str, text: &str) -> MailTemplate {
    MailTemplate {
        from: "orders@waybill.example".into(),
        from_name: "Waybill, local mode".into(),
        subject: subject.into(),
        text: text.into(),
    }
}

/// `order.placed`: a purchase order as a PDF to the event's recipients.
fn order() -> RouteSpec {
    let text = "Hello {name},\n\nplease find purchase order {subject} attached as a PDF.\n\nThis mail was sent by Waybill in local mode.";
    RouteSpec {
        channel: "email".into(),
        document: Some("purchase_order".into()),
        recipients: None,
        dedupe: true,
        on_unknown: None,
        mail: mail("Purchase order {subject}", text),
    }
}

/// `note.posted`: a plain mail without a document.
fn note() -> RouteSpec {
    let text = "Hello {name},\n\n{data/text}";
    RouteSpec {
        channel: "email".into(),
        document: None,
        recipients: None,
        dedupe: true,
        on_unknown: None,
        mail: mail("Note {subject}", text),
    }
}

/// The key of the last run while the database knows it, else a new one. It is kept in a file here; everywhere else a key is shown once.
async fn key(store: &Store, dir: &Path) -> anyhow::Result<String> {
    let path = dir.join("dev.key");
    if let Ok(text) = std::fs::read_to_string(&path)
        && let Ok(key) = ApiKey::parse(text.trim())
        && store.find_api_key(&key.hash()).await?.is_some_and(|found| found.tenant == TENANT)
    {
        return Ok(key.expose().to_owned());
    }
    let key = ApiKey::random(false)?;
    let new = NewApiKey {
        id: KeyId(SystemChance.id()),
        tenant: TENANT,
        key_hash: key.hash(),
        prefix: key.hint().to_owned(),
        scopes: SCOPES.map(str::to_owned).to_vec(),
        expires_at: None,
    };
    store.insert_api_key(&new).await.context("seeding the API key")?;
    let mut file = std::fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&path)?;
    file.write_all(key.expose().as_bytes())?;
    Ok(key.expose().to_owned())
}
