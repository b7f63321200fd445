-- The embedded queue of local mode and small installations: the semantics of SQS standard queues on one table. Unused on AWS.

CREATE TABLE queue_messages (
    id                  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue               text NOT NULL,
    body                text NOT NULL,
    attributes          jsonb NOT NULL DEFAULT '[]',
    -- The tenant, for fairness.
    group_id            text NOT NULL DEFAULT '',
    sent_at             timestamptz NOT NULL DEFAULT now(),
    visible_at          timestamptz NOT NULL DEFAULT now(),
    receive_count       integer NOT NULL DEFAULT 0,
    -- Changes at each reception: a receipt of an earlier one is stale.
    receipt             uuid
) WITH (fillfactor = 80);
CREATE INDEX queue_messages_visible ON queue_messages (queue, visible_at);
