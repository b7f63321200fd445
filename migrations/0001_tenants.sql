-- Tenants, their API keys (hashes only) and their routes.

CREATE TABLE tenants (
    id                  uuid PRIMARY KEY,
    name                text NOT NULL UNIQUE,
    -- NULL: the provider account's default (reconcile where its events reach us, else failover).
    on_unknown          text CHECK (on_unknown IN ('reconcile', 'failover', 'hold')),
    created_at          timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE api_keys (
    id                  uuid PRIMARY KEY,
    tenant_id           uuid NOT NULL REFERENCES tenants (id),
    -- SHA-256 of the whole key; the key itself is shown once and never stored.
    key_hash            bytea NOT NULL UNIQUE CHECK (octet_length(key_hash) = 32),
    -- First characters, for people to tell keys apart.
    prefix              text NOT NULL,
    scopes              text[] NOT NULL,
    expires_at          timestamptz,
    revoked_at          timestamptz,
    created_at          timestamptz NOT NULL DEFAULT now()
);

-- Rows are never changed but for `active`: an edit is a new version, and deliveries name the version they were decided by.
CREATE TABLE routes (
    id                  uuid NOT NULL,
    version             integer NOT NULL,
    tenant_id           uuid NOT NULL REFERENCES tenants (id),
    event_type          text NOT NULL,
    spec                jsonb NOT NULL,
    active              boolean NOT NULL DEFAULT true,
    created_at          timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (id, version)
);
CREATE UNIQUE INDEX routes_one_active_version ON routes (id) WHERE active;
CREATE INDEX routes_by_event_type ON routes (tenant_id, event_type) WHERE active;
