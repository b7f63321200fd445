-- Accepted events, the outbox that publishes them and the idempotency keys that make repeats harmless.

CREATE TABLE jobs (
    id                  uuid PRIMARY KEY,
    tenant_id           uuid NOT NULL REFERENCES tenants (id),
    event_id            text NOT NULL,
    source              text NOT NULL,
    type                text NOT NULL,
    subject             text,
    event_time          timestamptz,
    -- The event's own revision, else the SHA-256 of its canonical data.
    revision            text NOT NULL,
    -- Set when the revision is a whole number: the order of revisions.
    revision_number     bigint,
    -- JSON texts as received (numbers keep their digits).
    recipients          text NOT NULL,
    data                text NOT NULL,
    expires_at          timestamptz,
    state               text NOT NULL DEFAULT 'PENDING'
        CHECK (state IN ('PENDING', 'ROUTED', 'COMPLETED', 'PARTLY_FAILED', 'FAILED', 'CANCELLED')),
    reason              text,
    detail              text,
    cancel_requested_at timestamptz,
    -- When the scheduler looks at it if nobody else did. A job that is not final always has one: it can't get stuck unseen.
    due_at              timestamptz,
    -- How often it was queued again because nothing happened.
    requeues            integer NOT NULL DEFAULT 0,
    created_at          timestamptz NOT NULL DEFAULT now(),
    routed_at           timestamptz,
    CONSTRAINT jobs_pending_is_due CHECK ((state = 'PENDING') = (due_at IS NOT NULL))
) WITH (fillfactor = 80);
CREATE INDEX jobs_due ON jobs (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX jobs_by_tenant ON jobs (tenant_id, id);
-- For the sweep that gives finished jobs their last status.
CREATE INDEX jobs_routed ON jobs (routed_at) WHERE state = 'ROUTED';

-- One row per job whose main-queue message was not yet confirmed. Claimed by state, never by a cursor: a row that commits late is not
-- skipped.
CREATE TABLE outbox (
    job_id              uuid PRIMARY KEY REFERENCES jobs (id),
    tenant_id           uuid NOT NULL,
    attempts            integer NOT NULL DEFAULT 0,
    -- The relay takes rows from this time on; the API publishes earlier, right after its commit.
    publish_after       timestamptz NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX outbox_due ON outbox (publish_after);

-- Kept per tenant for longer than the longest client retry. The key is a hash of (kind, key text).
CREATE TABLE idempotency (
    tenant_id           uuid NOT NULL,
    key_hash            bytea NOT NULL CHECK (octet_length(key_hash) = 32),
    fingerprint         bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
    job_id              uuid NOT NULL,
    expires_at          timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, key_hash)
);
CREATE INDEX idempotency_expiry ON idempotency (expires_at);
