//! PostgreSQL and Redis: each as one URL, or in the parts in which a platform's secrets come.

use super::Reader;
use reqwest::Url;
use std::time::Duration;
use waybill_crypto::Secret;

#[derive(Debug, Clone)]
pub(crate) struct DatabaseConfig {
    pub(crate) url: Secret,
    pub(crate) connections: u32,
    pub(crate) acquire_timeout: Duration,
}

const SSL_MODES: [&str; 6] = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];

impl DatabaseConfig {
    pub(super) fn read(r: &mut Reader) -> Self {
        Self {
            url: Secret::new(postgres(r)),
            connections: r.number("WAYBILL_DATABASE_CONNECTIONS", 16, "Connections per process"),
            acquire_timeout: r.millis(
                "WAYBILL_DATABASE_ACQUIRE_TIMEOUT_MS",
                2_000,
                "Wait for a free connection before answering 503",
            ),
        }
    }
}

/// `DATABASE_URL`, else one that is made of the parts.
fn postgres(r: &mut Reader) -> String {
    let whole = r.alternative(
        "DATABASE_URL",
        "required, or `PGHOST` and the others",
        "PostgreSQL, 14 or newer: `postgres://user:password@host:5432/database`",
    );
    let host = r.optional("PGHOST", "Without `DATABASE_URL`: the database's host");
    let port: u16 = r.number("PGPORT", 5432, "Without `DATABASE_URL`: its port");
    let user = r.optional("PGUSER", "Without `DATABASE_URL`: the role");
    let password = r.optional("PGPASSWORD", "Without `DATABASE_URL`: the role's password");
    let name = r.optional("PGDATABASE", "Without `DATABASE_URL`: the database's name");
    let tls = r.optional(
        "PGSSLMODE",
        "Without `DATABASE_URL`: `disable`, `allow`, `prefer`, `require`, `verify-ca` or `verify-full`",
    );
    // Read by the client itself, whether the rest comes as a whole or in parts.
    r.document("PGSSLROOTCERT", "not set", "File with the authorities that `verify-ca` and `verify-full` trust");
    r.document("PGOPTIONS", "not set", "Settings of every session, such as `-c role=waybill`");
    if let Some(whole) = whole {
        return whole;
    }
    let Some(host) = host else {
        r.problem(
            "DATABASE_URL",
            "is not set: expected postgres://user:password@host:5432/database, or its parts in PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE and PGSSLMODE (that of local mode stands in .waybill/dev.env)".into(),
        );
        return String::new();
    };
    let mut parts = vec![("host", host), ("port", port.to_string())];
    for (variable, key, value) in [("PGUSER", "user", user), ("PGDATABASE", "dbname", name)] {
        match value {
            Some(value) => parts.push((key, value)),
            None => r.problem(variable, "is not set: needed beside PGHOST when there is no DATABASE_URL".into()),
        }
    }
    parts.extend(password.map(|password| ("password", password)));
    match tls {
        Some(mode) if SSL_MODES.contains(&mode.as_str()) => parts.push(("sslmode", mode)),
        Some(mode) => r.problem("PGSSLMODE", format!("`{mode}`: expected one of {}", SSL_MODES.join(", "))),
        None => {}
    }
    // As parameters, each is escaped in the same way, a socket's folder too.
    Url::parse_with_params("postgres://localhost", parts).map_or_else(|_| String::new(), String::from)
}

/// `REDIS_URL`, with the password of its own variable put in.
pub(super) fn redis(r: &mut Reader) -> Option<Secret> {
    let url = r.optional("REDIS_URL", "Redis or Valkey for the lock: `redis://host:6379`, `rediss://` with TLS, `redis-cluster://` or `rediss-cluster://` for a cluster. Not set: a lock inside the process, right for one process only");
    let password = r.optional("WAYBILL_REDIS_PASSWORD", "Password for `REDIS_URL` where the URL has none");
    let Some(password) = password else { return url.map(Secret::new) };
    match with_password(url.as_deref(), &password) {
        Ok(url) => Some(Secret::new(url)),
        Err(problem) => {
            r.problem("WAYBILL_REDIS_PASSWORD", problem.into());
            None
        }
    }
}

fn with_password(url: Option<&str>, password: &str) -> Result<String, &'static str> {
    let url = url.ok_or("is set without REDIS_URL: set redis://host:6379 or rediss://host:6379 there")?;
    let mut url =
        Url::parse(url).map_err(|_| "REDIS_URL is no URL: expected redis://host:6379 or rediss://host:6379")?;
    if url.password().is_some() {
        return Err("REDIS_URL has a password already: set it in one place");
    }
    url.set_password(Some(password)).map_err(|()| "REDIS_URL has no host: expected redis://host:6379")?;
    Ok(url.into())
}
