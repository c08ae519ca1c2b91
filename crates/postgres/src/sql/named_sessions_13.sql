SELECT named.pids
FROM (
    SELECT coalesce(pg_catalog.array_agg(a.pid), '{}') AS pids
    FROM pg_catalog.pg_stat_activity a
    WHERE a.backend_type = 'client backend'
      AND a.application_name = $1
) AS named
