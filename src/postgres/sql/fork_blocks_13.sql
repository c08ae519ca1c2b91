-- Blocks of every fork of the relations $1. pg_relation_size is NULL for a relation that was dropped meanwhile; it waits
-- for whoever rewrites or truncates one, so those are left out.
SELECT
    r.oid,
    f.fork,
    pg_relation_size(r.oid, f.fork) / current_setting('block_size')::bigint AS blocks
FROM unnest($1::oid[]) AS r (oid)
CROSS JOIN unnest(ARRAY['main', 'fsm', 'vm', 'init']) AS f (fork)
WHERE NOT EXISTS (
    SELECT FROM pg_locks l
    WHERE l.locktype = 'relation' AND l.mode = 'AccessExclusiveLock' AND l.relation = r.oid
)
