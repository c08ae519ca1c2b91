-- Processes that wait for a lock, or block such a process. For a prepared transaction (pid 0) or an ended process, only
-- the pid is known. If a process waits for a transaction, the relation is that of its tuple lock. Without a tuple lock,
-- it is the table that the process writes to, if there is only one.
-- pg_blocking_pids locks the lock manager for some 0.1 ms. It runs for at most 500 waits: the oldest first, waits
-- for `tuple` last. In a queue of n processes, each is blocked by all earlier ones: the query visits these n*n/2 pairs
-- only once.
WITH activity AS MATERIALIZED (
    SELECT * FROM pg_catalog.pg_stat_get_activity(NULL)
), waiter AS MATERIALIZED (
    SELECT activity.pid, pg_catalog.pg_blocking_pids(activity.pid) AS blockers
    FROM activity
    WHERE activity.wait_event_type = 'Lock'
    ORDER BY activity.wait_event = 'tuple', activity.state_change
    LIMIT 500
), involved AS (
    SELECT waiter.pid FROM waiter WHERE pg_catalog.cardinality(waiter.blockers) > 0
    UNION
    SELECT one.blocker FROM waiter CROSS JOIN LATERAL pg_catalog.unnest(waiter.blockers) AS one (blocker)
), held AS MATERIALIZED (
    SELECT held.*, written.oid AS written, pg_catalog.to_jsonb(held) ->> 'waitstart' AS since
    FROM pg_catalog.pg_lock_status() AS held
    LEFT JOIN pg_catalog.pg_database AS own ON own.oid = held.database AND own.datname = pg_catalog.current_database()
    LEFT JOIN pg_catalog.pg_class AS written
        ON written.oid = held.relation AND own.oid IS NOT NULL AND held.mode = 'RowExclusiveLock' AND written.relkind IN ('r', 'p')
), wanted AS (
    SELECT awaited.pid, awaited.mode, awaited.locktype, CAST(awaited.since AS pg_catalog.timestamptz) AS since,
           coalesce(awaited.relation, guessed.relation) AS relation,
           CASE WHEN awaited.relation IS NULL THEN guessed.database ELSE awaited.database END AS database
    FROM held AS awaited
    LEFT JOIN (
        SELECT held.pid, pg_catalog.max(held.database) AS database,
               coalesce(pg_catalog.max(held.relation) FILTER (WHERE held.locktype = 'tuple'),
                        CASE WHEN pg_catalog.count(DISTINCT held.written) = 1 THEN pg_catalog.max(held.written) END) AS relation
        FROM held
        WHERE held.granted AND (held.locktype = 'tuple' OR held.written IS NOT NULL)
        GROUP BY held.pid
    ) AS guessed ON guessed.pid = awaited.pid AND awaited.locktype = 'transactionid'
    WHERE NOT awaited.granted
)
SELECT involved.pid, process.backend_type AS backend, CAST(pg_catalog.pg_get_userbyid(process.usesysid) AS pg_catalog.text) AS "user",
       CAST(database.datname AS pg_catalog.text) AS database, process.application_name, process.query,
       process.wait_event_type AS event_type, process.wait_event AS event,
       CAST(EXTRACT(EPOCH FROM process.backend_start) * 1000000 AS pg_catalog.int8) AS started_us, process.state,
       CAST(EXTRACT(EPOCH FROM pg_catalog.clock_timestamp() - process.state_change) * 1000 AS pg_catalog.int8) AS state_ms,
       coalesce(waiter.blockers, '{}') AS blocked_by,
       wanted.mode,
       CASE WHEN wanted.relation IS NULL THEN nullif(wanted.locktype, 'transactionid') || ' lock'
            WHEN relation.oid IS NULL THEN 'relation ' || CAST(wanted.relation AS pg_catalog.text)
            WHEN n.nspname = 'public' THEN CAST(relation.relname AS pg_catalog.text)
            ELSE n.nspname || '.' || relation.relname
       END AS relation,
       CAST(EXTRACT(EPOCH FROM pg_catalog.clock_timestamp() - wanted.since) * 1000 AS pg_catalog.int8) AS waited_ms
FROM involved
LEFT JOIN waiter ON waiter.pid = involved.pid
LEFT JOIN activity AS process ON process.pid = involved.pid
LEFT JOIN pg_catalog.pg_database AS database ON database.oid = process.datid
LEFT JOIN wanted ON wanted.pid = waiter.pid
LEFT JOIN pg_catalog.pg_database AS own ON own.datname = pg_catalog.current_database()
LEFT JOIN pg_catalog.pg_class AS relation ON relation.oid = wanted.relation AND wanted.database IN (0, own.oid)
LEFT JOIN pg_catalog.pg_namespace AS n ON n.oid = relation.relnamespace
