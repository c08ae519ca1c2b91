-- `clients` includes clients idle for less than a second. Between fast statements, clients are often idle for a moment.
SELECT
    (SELECT CAST(coalesce(pg_catalog.sum(d.xact_commit + d.xact_rollback), 0) AS pg_catalog.int8)
     FROM pg_catalog.pg_stat_database d) AS transactions,
    (SELECT pg_catalog.count(*)
     FROM pg_catalog.pg_stat_activity a
     WHERE a.backend_type = 'client backend'
       AND a.pid <> pg_catalog.pg_backend_pid()
       AND a.application_name <> 'pgthaw'
       AND (a.state <> 'idle' OR a.state_change > pg_catalog.clock_timestamp() - interval '1 second')) AS clients
