-- pg_relation_size is NULL for a dropped relation. It would wait for exclusive locks, so locked relations are skipped.
SELECT
    c.oid AS relation_oid,
    f.fork,
    pg_catalog.pg_relation_size(c.oid, f.fork) / pg_catalog.current_setting('block_size')::bigint AS blocks
FROM pg_catalog.unnest($1::pg_catalog.oid[]) AS r (oid)
JOIN pg_catalog.pg_class c ON c.oid = r.oid
JOIN (VALUES
    ('main', 'rimtS', 'pu'),
    ('fsm', 'rimt', 'pu'),
    ('vm', 'rmt', 'pu'),
    ('init', 'ritS', 'u')
) AS f (fork, kinds, persistences)
    ON pg_catalog.strpos(f.kinds, c.relkind::pg_catalog.text) > 0
   AND pg_catalog.strpos(f.persistences, c.relpersistence::pg_catalog.text) > 0
WHERE NOT EXISTS (
    SELECT FROM pg_catalog.pg_locks l
    WHERE l.locktype = 'relation' AND l.mode = 'AccessExclusiveLock' AND l.relation = c.oid
)
