//! `waybill tenants|keys|routes`.

use super::output::{table, time};
use crate::system::SystemChance;
use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use std::process::ExitCode;
use waybill_core::{
    clock::Chance as _,
    ids::{KeyId, RouteId, TenantId},
    outcome::OnUnknown,
    route::RouteSpec,
};
use waybill_crypto::ApiKey;
use waybill_store::{NewApiKey, Store};

#[derive(Subcommand)]
pub(crate) enum TenantsCommand {
    /// A new tenant
    Create {
        name: String,
        /// What to do when nobody can know whether a provider accepted: reconcile, failover or hold
        #[arg(long, value_parser = policy)]
        on_unknown: Option<OnUnknown>,
    },
    List,
    /// Sources on the event bus whose events are a tenant's: add, remove, list
    Intake {
        #[command(subcommand)]
        command: IntakeCommand,
    },
}

#[derive(Subcommand)]
pub(crate) enum IntakeCommand {
    /// From now on events of this source are the tenant's; a source has one tenant
    Add {
        tenant: TenantId,
        /// The `source` of EventBridge's envelope
        source: String,
    },
    /// From now on events of this source are refused
    Remove { tenant: TenantId, source: String },
    List {
        /// Without it: of every tenant
        tenant: Option<TenantId>,
    },
}

fn policy(text: &str) -> Result<OnUnknown, String> {
    OnUnknown::parse(text).ok_or_else(|| "expected reconcile, failover or hold".into())
}

#[derive(Subcommand)]
pub(crate) enum KeysCommand {
    /// A new key, shown once
    Create(CreateKeyArgs),
    List {
        tenant: TenantId,
    },
    /// Works no longer than 60 s after this
    Revoke {
        key: KeyId,
    },
}

#[derive(Args)]
pub(crate) struct CreateKeyArgs {
    tenant: TenantId,
    /// Comma-separated
    #[arg(long, value_delimiter = ',', default_value = "events:write,jobs:read,jobs:write")]
    scopes: Vec<String>,
    /// RFC 3339
    #[arg(long)]
    expires_at: Option<chrono::DateTime<chrono::Utc>>,
    /// A `wb_test_` key
    #[arg(long)]
    test: bool,
}

#[derive(Subcommand)]
pub(crate) enum RoutesCommand {
    /// Puts a route (a new version if it exists) from a JSON file: {"channel","document","recipients","dedupe","on_unknown","mail":{"from","from_name","subject","text"}}
    Put {
        tenant: TenantId,
        event_type: String,
        file: std::path::PathBuf,
        /// An existing route
        #[arg(long)]
        id: Option<RouteId>,
    },
    List {
        tenant: TenantId,
    },
}

pub(super) async fn run(command: TenantsCommand) -> anyhow::Result<ExitCode> {
    let store = super::store().await?;
    match command {
        TenantsCommand::Create { name, on_unknown } => {
            let id = TenantId(SystemChance.id());
            if !store.create_tenant(id, &name, on_unknown).await? {
                bail!("there is a tenant called `{name}` already");
            }
            println!("{id}");
        }
        TenantsCommand::List => {
            let rows: Vec<_> = store
                .list_tenants()
                .await?
                .iter()
                .map(|t| {
                    vec![
                        t.id.to_string(),
                        t.name.clone(),
                        t.on_unknown.map_or("default", OnUnknown::as_str).to_owned(),
                        time(t.created_at),
                    ]
                })
                .collect();
            print!("{}", table(&["tenant", "name", "on unknown", "created"], &rows));
        }
        TenantsCommand::Intake { command } => intake(&store, command).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn intake(store: &Store, command: IntakeCommand) -> anyhow::Result<()> {
    match command {
        IntakeCommand::Add { tenant, source } => {
            let added = store
                .allow_intake_source(tenant, &source)
                .await
                .with_context(|| format!("adding the source `{source}` (is {tenant} a tenant?)"))?;
            println!("{}", if added { "added" } else { "it was there already" });
        }
        IntakeCommand::Remove { tenant, source } => {
            if !store.remove_intake_source(tenant, &source).await? {
                bail!("{tenant} has no source `{source}`: see `waybill tenants intake list`");
            }
            println!("removed");
        }
        IntakeCommand::List { tenant } => {
            let rows: Vec<_> = store
                .list_intake_sources(tenant)
                .await?
                .into_iter()
                .map(|s| vec![s.source, s.tenant.to_string(), time(s.created_at)])
                .collect();
            print!("{}", table(&["source", "tenant", "since"], &rows));
        }
    }
    Ok(())
}

pub(super) async fn run_keys(command: KeysCommand) -> anyhow::Result<ExitCode> {
    let store = super::store().await?;
    match command {
        KeysCommand::Create(args) => {
            if let Some(unknown) = args.scopes.iter().find(|scope| !waybill_api::auth::SCOPES.contains(&scope.as_str()))
            {
                bail!("--scopes: `{unknown}` is not one of {}", waybill_api::auth::SCOPES.join(", "));
            }
            let key = ApiKey::random(!args.test)?;
            let id = KeyId(SystemChance.id());
            let new = NewApiKey {
                id,
                tenant: args.tenant,
                key_hash: key.hash(),
                prefix: key.hint().to_owned(),
                scopes: args.scopes,
                expires_at: args.expires_at,
            };
            store
                .insert_api_key(&new)
                .await
                .with_context(|| format!("storing the key (is {} a tenant?)", args.tenant))?;
            eprintln!("key {id}; it is shown this once and stored only as a hash:");
            println!("{}", key.expose());
        }
        KeysCommand::List { tenant } => {
            let rows: Vec<_> = store
                .list_api_keys(tenant)
                .await?
                .iter()
                .map(|k| {
                    vec![
                        k.id.to_string(),
                        format!("{}…", k.prefix),
                        k.scopes.join(","),
                        time(k.created_at),
                        k.expires_at.map_or("-".into(), time),
                        k.revoked_at.map_or("-".into(), time),
                    ]
                })
                .collect();
            print!("{}", table(&["key", "starts with", "scopes", "created", "expires", "revoked"], &rows));
        }
        KeysCommand::Revoke { key } => {
            if !store.revoke_api_key(key).await? {
                bail!("there is no key {key} that could be revoked");
            }
            println!("revoked");
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn run_routes(command: RoutesCommand) -> anyhow::Result<ExitCode> {
    let store = super::store().await?;
    match command {
        RoutesCommand::Put { tenant, event_type, file, id } => {
            let text = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
            let spec: RouteSpec =
                serde_json::from_str(&text).with_context(|| format!("{} is no route", file.display()))?;
            if let Err(problem) = spec.check() {
                bail!("{}: {problem}", file.display());
            }
            let id = id.unwrap_or_else(|| RouteId(SystemChance.id()));
            let version = store.put_route(tenant, id, &event_type, &spec).await?;
            println!("{id} version {version}");
        }
        RoutesCommand::List { tenant } => {
            let rows: Vec<_> = store
                .list_routes(tenant)
                .await?
                .iter()
                .map(|r| {
                    vec![
                        r.id.to_string(),
                        r.version.to_string(),
                        r.event_type.clone(),
                        r.spec.channel.clone(),
                        r.spec.document.clone().unwrap_or_default(),
                        r.spec.mail.subject.clone(),
                    ]
                })
                .collect();
            print!("{}", table(&["route", "version", "event type", "channel", "document", "mail subject"], &rows));
        }
    }
    Ok(ExitCode::SUCCESS)
}
