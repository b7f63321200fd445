-- The embedded queue of local mode and small installations: the semantics of SQS standard queues on one table. Unused on AWS.

CREATE TABLE queue_messages (
    id                  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue               text COLLATE "C" NOT NULL,
    body                text NOT NULL,
    -- [["name", "value"], ...]
    attributes          jsonb NOT NULL DEFAULT '[]',
    -- The tenant, for fairness. Never empty: the walk over groups begins after ''. Byte order, which is cheap and never changes.
    group_id            text COLLATE "C" NOT NULL DEFAULT '-' CHECK (group_id <> ''),
    -- Of the first sending: kept when the message moves to the dead-letter queue.
    sent_at             timestamptz NOT NULL DEFAULT now(),
    -- In the future: delayed (never received) or in flight (received).
    visible_at          timestamptz NOT NULL DEFAULT now(),
    receive_count       integer NOT NULL DEFAULT 0,
    -- Changes at each reception: a receipt of an earlier one is stale.
    receipt             uuid
) WITH (
    -- Every message dies young: vacuum by number of dead rows, not by share of the table.
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 20000
);
-- One probe finds the next group, one its oldest visible message. The only index besides the key: every reception writes to each.
CREATE INDEX queue_messages_group ON queue_messages (queue, group_id, visible_at);
