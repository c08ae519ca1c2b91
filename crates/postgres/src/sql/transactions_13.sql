-- `clients` includes clients idle for less than a second, as they are between fast statements. `pids` includes I/O
-- workers (18), which belong to no database.
SELECT
    d.xact_commit + d.xact_rollback AS transactions,
    d.blks_hit AS blocks_hit,
    d.blks_read AS blocks_read,
    pg_catalog.count(*) FILTER (
        WHERE a.backend_type = 'client backend'
          AND (a.state <> 'idle' OR a.state_change > pg_catalog.clock_timestamp() - interval '1 second')
    ) AS clients,
    coalesce(pg_catalog.array_agg(a.pid) FILTER (WHERE a.pid IS NOT NULL), '{}') AS pids
FROM pg_catalog.pg_stat_database d
LEFT JOIN pg_catalog.pg_stat_activity a
    ON (a.datname = d.datname OR a.backend_type = 'io worker')
   AND (a.backend_type IS NULL OR a.backend_type IN ('client backend', 'parallel worker', 'io worker'))
   AND a.pid <> pg_catalog.pg_backend_pid()
WHERE d.datname = pg_catalog.current_database()
GROUP BY d.xact_commit, d.xact_rollback, d.blks_hit, d.blks_read
