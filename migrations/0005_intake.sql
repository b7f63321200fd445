-- Events that come by queue (EventBridge): whose they are.

-- Closed by default: an event of a source that is not here belongs to nobody and is not accepted.
CREATE TABLE intake_sources (
    -- The envelope's `source`, chosen by whoever puts events onto the bus.
    source              text PRIMARY KEY CHECK (source <> ''),
    tenant_id           uuid NOT NULL REFERENCES tenants (id),
    created_at          timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX intake_sources_by_tenant ON intake_sources (tenant_id);

-- The W3C trace context of the request or message that brought the event. NULL: it came without one.
ALTER TABLE jobs ADD COLUMN traceparent text;
