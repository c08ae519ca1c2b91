-- Each process that waits for a lock and each process that blocks one, once: what it does, the processes that block it, and the lock that it
-- waits for. A prepared transaction (its pid is 0) and a process that has ended have nothing but their pid. The relation of a wait for
-- another transaction is that of the row's lock, else the only table that the process writes to. PostgreSQL 13 does not know since when a
-- process waits. pg_blocking_pids locks the whole lock manager for a moment, so only the 200 oldest waits are read.
WITH activity AS MATERIALIZED (
    SELECT * FROM pg_catalog.pg_stat_get_activity(NULL)
), waiter AS MATERIALIZED (
    SELECT activity.pid, pg_catalog.pg_blocking_pids(activity.pid) AS blockers
    FROM activity
    WHERE activity.wait_event_type = 'Lock'
    ORDER BY activity.state_change
    LIMIT 200
), edge AS MATERIALIZED (
    SELECT DISTINCT waiter.pid, one.blocker
    FROM waiter
    CROSS JOIN LATERAL pg_catalog.unnest(waiter.blockers) AS one (blocker)
), wanted AS (
    SELECT held.pid,
           pg_catalog.max(held.mode) FILTER (WHERE NOT held.granted) AS mode,
           pg_catalog.max(held.database) AS database,
           coalesce(pg_catalog.max(held.relation) FILTER (WHERE NOT held.granted),
                    pg_catalog.max(held.relation) FILTER (WHERE held.locktype = 'tuple'),
                    CASE WHEN pg_catalog.count(DISTINCT written.oid) = 1 THEN pg_catalog.max(written.oid) END) AS relation,
           pg_catalog.min(CAST(pg_catalog.to_jsonb(held) ->> 'waitstart' AS pg_catalog.timestamptz)) AS since
    FROM pg_catalog.pg_lock_status() AS held
    LEFT JOIN pg_catalog.pg_database AS own ON own.oid = held.database AND own.datname = pg_catalog.current_database()
    LEFT JOIN pg_catalog.pg_class AS written
        ON written.oid = held.relation AND own.oid IS NOT NULL AND held.mode = 'RowExclusiveLock' AND written.relkind IN ('r', 'p')
    WHERE held.pid IN (SELECT edge.pid FROM edge)
    GROUP BY held.pid
)
SELECT involved.pid, process.backend_type,
       CAST(pg_catalog.pg_get_userbyid(process.usesysid) AS pg_catalog.text) AS username,
       CAST(database.datname AS pg_catalog.text) AS database, process.application_name,
       process.query, process.wait_event_type, process.wait_event,
       CAST(EXTRACT(EPOCH FROM process.backend_start) * 1000000 AS pg_catalog.int8) AS started_us, process.state,
       CAST(EXTRACT(EPOCH FROM pg_catalog.clock_timestamp() - process.state_change) * 1000 AS pg_catalog.int8) AS state_ms,
       (SELECT pg_catalog.count(*) FROM edge WHERE edge.blocker = involved.pid) AS waiters,
       ARRAY(SELECT edge.blocker FROM edge WHERE edge.pid = involved.pid) AS blocked_by,
       wanted.mode,
       CASE WHEN relation.oid IS NULL THEN 'relation ' || CAST(wanted.relation AS pg_catalog.text)
            WHEN n.nspname = 'public' THEN CAST(relation.relname AS pg_catalog.text)
            ELSE n.nspname || '.' || relation.relname
       END AS relation,
       CAST(EXTRACT(EPOCH FROM pg_catalog.clock_timestamp() - wanted.since) * 1000 AS pg_catalog.int8) AS waited_ms
FROM (SELECT edge.pid FROM edge UNION SELECT edge.blocker FROM edge) AS involved
LEFT JOIN activity AS process ON process.pid = involved.pid
LEFT JOIN pg_catalog.pg_database AS database ON database.oid = process.datid
LEFT JOIN wanted ON wanted.pid = involved.pid
LEFT JOIN pg_catalog.pg_database AS own ON own.datname = pg_catalog.current_database()
LEFT JOIN pg_catalog.pg_class AS relation ON relation.oid = wanted.relation AND wanted.database IN (0, own.oid)
LEFT JOIN pg_catalog.pg_namespace AS n ON n.oid = relation.relnamespace
