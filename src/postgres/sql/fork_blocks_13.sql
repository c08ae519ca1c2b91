-- Blocks of every fork that the relations $1 can have. pg_relation_size is NULL for a relation that was dropped
-- meanwhile; it waits for whoever rewrites or truncates one, so those are left out.
SELECT
    c.oid,
    f.fork,
    pg_relation_size(c.oid, f.fork) / current_setting('block_size')::bigint AS blocks
FROM unnest($1::oid[]) AS r (oid)
JOIN pg_class c ON c.oid = r.oid
JOIN (VALUES
    ('main', 'rimtS', 'pu'),
    ('fsm', 'rimt', 'pu'),
    ('vm', 'rmt', 'pu'),
    ('init', 'ritS', 'u')
) AS f (fork, kinds, persistences)
    ON strpos(f.kinds, c.relkind::text) > 0 AND strpos(f.persistences, c.relpersistence::text) > 0
WHERE NOT EXISTS (
    SELECT FROM pg_locks l
    WHERE l.locktype = 'relation' AND l.mode = 'AccessExclusiveLock' AND l.relation = c.oid
)
