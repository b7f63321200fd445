-- Documents, deliveries, claims, attempts and the ledger. States and reasons are the words of `waybill-core::state`.

CREATE TABLE documents (
    id                  uuid PRIMARY KEY,
    tenant_id           uuid NOT NULL REFERENCES tenants (id),
    document_type       text NOT NULL,
    subject             text NOT NULL,
    revision            text NOT NULL,
    template_version    integer NOT NULL,
    -- Whose `data` it is made of.
    job_id              uuid NOT NULL REFERENCES jobs (id),
    object_key          text NOT NULL,
    state               text NOT NULL DEFAULT 'PENDING' CHECK (state IN ('PENDING', 'RENDERING', 'READY', 'FAILED')),
    reason              text,
    detail              text,
    attempts            integer NOT NULL DEFAULT 0,
    claim_token         uuid,
    claim_expires_at    timestamptz,
    -- Next render, or the end of the render claim. A document that is not final always has one.
    due_at              timestamptz,
    deadline_at         timestamptz NOT NULL,
    size_bytes          bigint,
    sha256              bytea,
    created_at          timestamptz NOT NULL DEFAULT now(),
    updated_at          timestamptz NOT NULL DEFAULT now(),
    UNIQUE (tenant_id, document_type, subject, revision, template_version),
    CONSTRAINT documents_open_is_due CHECK ((state IN ('PENDING', 'RENDERING')) = (due_at IS NOT NULL)),
    CONSTRAINT documents_rendering_is_claimed CHECK ((state = 'RENDERING') = (claim_token IS NOT NULL))
) WITH (fillfactor = 80);
CREATE INDEX documents_due ON documents (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE deliveries (
    id                  uuid PRIMARY KEY,
    tenant_id           uuid NOT NULL,
    job_id              uuid NOT NULL REFERENCES jobs (id),
    route_id            uuid NOT NULL,
    route_version       integer NOT NULL,
    channel             text NOT NULL CHECK (channel IN ('email')),
    -- As spelt by the producer, and the display name.
    recipient           text NOT NULL,
    recipient_name      text NOT NULL,
    -- What recipients are compared and searched by; empty where the address is none.
    recipient_key       text NOT NULL DEFAULT '',
    identity            bytea NOT NULL CHECK (octet_length(identity) = 32),
    -- The identity without its revision; NULL where the event names no subject.
    lineage             bytea CHECK (octet_length(lineage) = 32),
    document_id         uuid REFERENCES documents (id),
    state               text NOT NULL CHECK (state IN (
        'PENDING', 'WAITING_DOCUMENT', 'SENDING', 'RETRYING', 'UNKNOWN',
        'SENT', 'DELIVERED', 'BOUNCED', 'COMPLAINED', 'FAILED', 'DUPLICATE', 'SUPPRESSED', 'SUPERSEDED', 'EXPIRED', 'CANCELLED')),
    reason              text,
    detail              text,
    -- Optimistic token of the next move; equals the delivery's last ledger version.
    version             integer NOT NULL DEFAULT 1,
    -- Whole passes over the provider list.
    attempts            integer NOT NULL DEFAULT 0,
    -- Attempts that started and never ended.
    crashes             integer NOT NULL DEFAULT 0,
    -- Index of the provider the next piece of the pass starts at.
    provider_position   integer NOT NULL DEFAULT 0,
    -- UNKNOWN under the policy `hold`: never re-sent by itself.
    held                boolean NOT NULL DEFAULT false,
    -- When the scheduler looks at it: next attempt, end of the claim, end of the reconcile window, document deadline, lost queue message.
    -- A delivery that is not final always has one: no state can get stuck unseen.
    due_at              timestamptz,
    requeues            integer NOT NULL DEFAULT 0,
    -- A retry is not tried before this, also when a repeated message comes early (due_at moves on when it is queued).
    not_before          timestamptz,
    -- When its READY document was found and its message queued. Older than the document: it has to be queued (again).
    released_at         timestamptz,
    -- The other delivery: DUPLICATE of, SUPERSEDED by.
    other_id            uuid,
    -- The job's expires_at, beside the row that is asked about it.
    expires_at          timestamptz,
    provider            text,
    provider_message_id text,
    dead_lettered_at    timestamptz,
    sent_at             timestamptz,
    created_at          timestamptz NOT NULL DEFAULT now(),
    updated_at          timestamptz NOT NULL DEFAULT now(),
    UNIQUE (job_id, identity),
    CONSTRAINT deliveries_open_is_due CHECK (
        (state IN ('PENDING', 'WAITING_DOCUMENT', 'SENDING', 'RETRYING', 'UNKNOWN')) = (due_at IS NOT NULL)),
    CONSTRAINT deliveries_dead_is_failed CHECK (dead_lettered_at IS NULL OR state = 'FAILED')
) WITH (fillfactor = 70);
CREATE INDEX deliveries_due ON deliveries (due_at) WHERE due_at IS NOT NULL;
-- What of a job is still open: without it each look at a job of 10,000 recipients would read all of them.
CREATE INDEX deliveries_open_by_job ON deliveries (job_id, id) WHERE due_at IS NOT NULL;
CREATE INDEX deliveries_dead ON deliveries (id) WHERE dead_lettered_at IS NOT NULL;
CREATE INDEX deliveries_by_recipient ON deliveries (recipient_key, tenant_id) WHERE recipient_key <> '';
CREATE INDEX deliveries_waiting ON deliveries (document_id) WHERE state = 'WAITING_DOCUMENT';

-- The send log and the claims: one row per identity that was ever claimed. The primary key is what makes two workers one sender.
CREATE TABLE sends (
    tenant_id           uuid NOT NULL,
    identity            bytea NOT NULL,
    -- claimed: a worker may be calling a provider until claim_expires_at. unknown: in progress for everybody until it is reconciled.
    -- released: free to be claimed. sent: for good.
    state               text NOT NULL CHECK (state IN ('claimed', 'unknown', 'released', 'sent')),
    -- The delivery that holds it (or sent it).
    delivery_id         uuid NOT NULL,
    claim_token         uuid,
    claim_expires_at    timestamptz,
    attempt_id          uuid,
    lineage             bytea,
    revision_number     bigint,
    job_created_at      timestamptz NOT NULL,
    provider            text,
    provider_message_id text,
    sent_at             timestamptz,
    PRIMARY KEY (tenant_id, identity),
    -- The lease is there as a whole or not at all.
    CONSTRAINT sends_claimed_has_token CHECK ((state = 'claimed') = (claim_token IS NOT NULL)),
    CONSTRAINT sends_claimed_has_expiry CHECK ((state = 'claimed') = (claim_expires_at IS NOT NULL)),
    CONSTRAINT sends_claimed_has_attempt CHECK ((state = 'claimed') = (attempt_id IS NOT NULL))
) WITH (fillfactor = 70);
CREATE INDEX sends_lineage ON sends (tenant_id, lineage) WHERE lineage IS NOT NULL;

-- One accepted send per identity, whatever a statement of ours may get wrong: what was sent stays sent, by whom it was sent.
CREATE FUNCTION sent_is_for_good() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a sent identity never changes';
END $$;
CREATE TRIGGER sends_sent_is_for_good BEFORE UPDATE ON sends
    FOR EACH ROW
    WHEN (OLD.state = 'sent' AND (NEW.state <> 'sent' OR NEW.delivery_id <> OLD.delivery_id))
    EXECUTE FUNCTION sent_is_for_good();

-- One row per claim, written in the claim's own statement, before the first byte goes to a provider.
CREATE TABLE attempts (
    id                  uuid PRIMARY KEY,
    delivery_id         uuid NOT NULL REFERENCES deliveries (id),
    -- The pass it belongs to, from 1.
    number              integer NOT NULL,
    claim_token         uuid NOT NULL,
    started_at          timestamptz NOT NULL DEFAULT now(),
    ended_at            timestamptz,
    -- sent, unknown, retry, hold, failed; crashed: its claim expired; overtaken: its identity was sent by another attempt; late: its
    -- result came after its claim was lost.
    outcome             text,
    -- [{provider, outcome, detail, provider_message_id, ms}]
    calls               jsonb NOT NULL DEFAULT '[]'
) WITH (fillfactor = 80);
CREATE INDEX attempts_by_delivery ON attempts (delivery_id);

-- Results that came after their claim was lost.
CREATE TABLE late_results (
    attempt_id          uuid PRIMARY KEY,
    delivery_id         uuid NOT NULL,
    tenant_id           uuid NOT NULL,
    identity            bytea NOT NULL,
    outcome             text NOT NULL,
    calls               jsonb NOT NULL,
    -- An acceptance by a worker that was frozen past its claim while another could send: the one window no protocol closes.
    frozen              boolean NOT NULL,
    recorded_at         timestamptz NOT NULL DEFAULT now()
);

-- What providers told us. Kept also when it matches nothing.
CREATE TABLE provider_events (
    provider            text NOT NULL,
    event_id            text NOT NULL,
    delivery_id         uuid,
    attempt_id          uuid,
    provider_message_id text,
    kind                text NOT NULL,
    detail              text NOT NULL DEFAULT '',
    event_time          timestamptz,
    received_at         timestamptz NOT NULL DEFAULT now(),
    -- When it had its effect, or was seen to have none. NULL while its delivery is SENDING: the attempt's own result comes first.
    settled_at          timestamptz,
    PRIMARY KEY (provider, event_id)
);
CREATE INDEX provider_events_by_delivery ON provider_events (delivery_id) WHERE delivery_id IS NOT NULL;
CREATE INDEX provider_events_unsettled ON provider_events (received_at) WHERE settled_at IS NULL;

-- Every move of every delivery, gap-free per delivery because the version is the key.
CREATE TABLE ledger (
    delivery_id         uuid NOT NULL,
    version             integer NOT NULL,
    state               text NOT NULL,
    reason              text,
    detail              text,
    at                  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (delivery_id, version)
);

CREATE FUNCTION ledger_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the ledger is append-only';
END $$;
CREATE TRIGGER ledger_append_only BEFORE UPDATE OR DELETE ON ledger
    FOR EACH ROW EXECUTE FUNCTION ledger_is_append_only();

-- Alerts that were raised: one per cause and key, counted, so that many rows with one cause ring once.
CREATE TABLE alerts (
    cause               text NOT NULL,
    key                 text NOT NULL,
    count               bigint NOT NULL DEFAULT 1,
    first_at            timestamptz NOT NULL DEFAULT now(),
    last_at             timestamptz NOT NULL DEFAULT now(),
    last_notified_at    timestamptz,
    PRIMARY KEY (cause, key)
);
