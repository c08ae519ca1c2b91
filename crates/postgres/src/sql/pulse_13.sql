-- Excludes sessions $1. Columns missing in a version are NULL. Avoids pg_stat_activity, which joins more catalogs.
SELECT done.*, doing.*
FROM (
    SELECT CAST(pg_catalog.sum(d.xact_commit) AS pg_catalog.int8) AS commits,
           CAST(pg_catalog.sum(d.xact_rollback) AS pg_catalog.int8) AS rollbacks,
           CAST(pg_catalog.sum(d.blks_hit) AS pg_catalog.int8) AS blocks_hit,
           CAST(pg_catalog.sum(d.blks_read) AS pg_catalog.int8) AS blocks_read,
           CAST(pg_catalog.sum(d.temp_bytes) AS pg_catalog.int8) AS temporary_bytes,
           CAST(pg_catalog.sum(d.deadlocks) AS pg_catalog.int8) AS deadlocks,
           pg_catalog.sum(CAST(pg_catalog.to_jsonb(d) ->> 'active_time' AS pg_catalog.float8)) AS active_ms
    FROM pg_catalog.pg_stat_database AS d
) AS done
CROSS JOIN (
    SELECT pg_catalog.count(*) FILTER (WHERE a.backend_type = 'client backend') AS clients,
           pg_catalog.count(*) FILTER (WHERE a.backend_type = 'client backend' AND a.state = 'active') AS active,
           pg_catalog.count(*) FILTER (WHERE a.backend_type = 'client backend' AND a.state LIKE 'idle in transaction%')
               AS idle_in_transaction,
           CAST(EXTRACT(EPOCH FROM pg_catalog.max(pg_catalog.clock_timestamp() - a.query_start)
               FILTER (WHERE a.backend_type = 'client backend' AND a.state = 'active')) AS pg_catalog.float8) AS longest_query_seconds,
           CAST(EXTRACT(EPOCH FROM pg_catalog.max(pg_catalog.clock_timestamp() - a.xact_start)
               FILTER (WHERE a.backend_type = 'client backend')) AS pg_catalog.float8) AS longest_transaction_seconds,
           pg_catalog.count(*) FILTER (WHERE a.backend_type IS NULL) AS hidden,
           pg_catalog.max(a.wait_event) FILTER (WHERE a.backend_type = 'checkpointer') AS checkpointer_event
    FROM pg_catalog.pg_stat_get_activity(NULL) AS a
    WHERE a.pid <> ALL ($1)
) AS doing
