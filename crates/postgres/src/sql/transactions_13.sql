-- `clients` includes clients idle for less than a second, as they are between fast statements. `pids` has the
-- sessions that worked within $1 seconds, and I/O workers (18), which belong to no database.
SELECT
    d.xact_commit + d.xact_rollback AS transactions,
    d.blks_hit AS blocks_hit,
    d.blks_read AS blocks_read,
    pg_catalog.count(*) FILTER (
        WHERE a.backend_type = 'client backend'
          AND (a.state <> 'idle' OR a.state_change > pg_catalog.clock_timestamp() - interval '1 second')
    ) AS clients,
    coalesce(pg_catalog.array_agg(a.pid) FILTER (WHERE a.pid IS NOT NULL AND w.worked), '{}') AS pids,
    coalesce(pg_catalog.array_agg(coalesce(a.backend_start > w.since, false)) FILTER (WHERE a.pid IS NOT NULL AND w.worked), '{}')
        AS are_new
FROM pg_catalog.pg_stat_database d
LEFT JOIN pg_catalog.pg_stat_activity a
    ON (a.datname = d.datname OR a.backend_type = 'io worker')
   AND (a.backend_type IS NULL OR a.backend_type IN ('client backend', 'parallel worker', 'io worker'))
   AND a.pid <> pg_catalog.pg_backend_pid()
CROSS JOIN LATERAL (
    SELECT since, a.state IS NULL OR a.state <> 'idle' OR a.state_change > since AS worked
    FROM (SELECT pg_catalog.clock_timestamp() - pg_catalog.make_interval(secs => $1)) AS looked (since)
) AS w
WHERE d.datname = pg_catalog.current_database()
GROUP BY d.xact_commit, d.xact_rollback, d.blks_hit, d.blks_read
