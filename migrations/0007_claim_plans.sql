-- The same claim_gate as before, but for how it finds the identity's own row. Plans are made once per connection (plan_cache_mode), mostly
-- while the tables are small, and a plain join of a table that is believed to be empty reads all of it, later too.
CREATE OR REPLACE FUNCTION claim_gate(ids uuid[]) RETURNS TABLE (delivery_id uuid, verdict text, by_id uuid, wait float8)
LANGUAGE plpgsql STRICT AS $$
#variable_conflict use_column
BEGIN
    -- One claim per lineage at a time; held until the caller's commit. In the order of the keys, and after the deliveries' locks, like
    -- everywhere: no circle of waiting.
    PERFORM pg_advisory_xact_lock(k.key)
    FROM (SELECT DISTINCT ('x' || encode(substring(d.lineage FROM 1 FOR 8), 'hex'))::bit(64)::bigint AS key
          FROM deliveries d WHERE d.id = ANY(ids) AND d.lineage IS NOT NULL
          ORDER BY key) k;
    RETURN QUERY
    WITH c AS MATERIALIZED (
        SELECT d.id, d.tenant_id, d.identity, d.lineage, j.seq, j.revision_number AS number, j.ordering_key, j.ordering_timed_out,
               j.ordering_due_at IS NOT NULL AS in_line, own.delivery_id IS NOT NULL AS sent,
               own.job_seq AS sent_seq, coalesce(j.revision_by_content AND j.seq > own.job_seq, false) AS later
        FROM deliveries d
        JOIN jobs j ON j.id = d.job_id
        -- LIMIT 1, so that it is looked up by its key, one by one.
        LEFT JOIN LATERAL (
            SELECT o.delivery_id, o.job_seq
            FROM sends o
            WHERE o.tenant_id = d.tenant_id AND o.identity = d.identity AND o.state = 'sent'
            LIMIT 1
        ) own ON true
        WHERE d.id = ANY(ids)
    ),
    judged AS MATERIALIZED (
        SELECT c.*, coalesce(newer.delivery_id, ahead.id, busy.delivery_id) AS by_id, busy.wait,
               CASE WHEN c.sent AND NOT c.later THEN 'sent' -- the caller finds out by itself
                    WHEN c.ordering_timed_out THEN 'timed_out'
                    WHEN newer.delivery_id IS NOT NULL THEN 'superseded'
                    WHEN ahead.id IS NOT NULL THEN 'turn'
                    WHEN busy.delivery_id IS NOT NULL THEN 'busy'
                    WHEN c.sent AND EXISTS (
                        SELECT FROM sends o
                        WHERE o.tenant_id = c.tenant_id AND o.lineage = c.lineage AND o.identity <> c.identity AND o.state = 'sent'
                          AND o.job_seq > c.sent_seq) THEN 'again'
                    WHEN c.sent THEN 'current' END AS verdict
        FROM c
        LEFT JOIN LATERAL (
            SELECT p.id
            FROM jobs p
            WHERE c.in_line AND p.tenant_id = c.tenant_id AND p.ordering_key = c.ordering_key AND p.ordering_due_at IS NOT NULL
              AND p.seq < c.seq
            ORDER BY p.seq
            LIMIT 1
        ) ahead ON true
        LEFT JOIN LATERAL (
            SELECT s.delivery_id
            FROM sends s
            WHERE s.tenant_id = c.tenant_id AND s.lineage = c.lineage AND s.identity <> c.identity AND s.state = 'sent'
              AND revision_is_newer(s.revision_number, s.job_seq, c.number, c.seq)
            LIMIT 1
        ) newer ON true
        LEFT JOIN LATERAL (
            SELECT s.delivery_id, CASE s.state WHEN 'unknown' THEN extract(epoch FROM h.due_at - now())::float8 END AS wait
            FROM sends s
            JOIN deliveries h ON h.id = s.delivery_id
            WHERE s.tenant_id = c.tenant_id AND s.lineage = c.lineage AND s.identity <> c.identity
              -- An older one that is held for a person stops nothing: if it was sent, that was before.
              AND (s.state = 'claimed' OR (s.state = 'unknown' AND (
                  NOT h.held OR revision_is_newer(s.revision_number, s.job_seq, c.number, c.seq))))
            LIMIT 1
        ) busy ON true
    ),
    -- Of several that are free the newest goes, and the others look again.
    ranked AS (
        SELECT j.*, first_value(j.id) OVER (PARTITION BY j.tenant_id, coalesce(j.lineage, j.identity), coalesce(j.verdict, 'again')
                                            ORDER BY j.number DESC NULLS LAST, j.seq DESC) AS first
        FROM judged j
    )
    SELECT r.id,
           CASE WHEN coalesce(r.verdict, 'again') = 'again' AND r.first <> r.id THEN 'busy' ELSE nullif(r.verdict, 'sent') END,
           CASE WHEN coalesce(r.verdict, 'again') = 'again' THEN nullif(r.first, r.id) ELSE r.by_id END,
           r.wait
    FROM ranked r;
END $$;
