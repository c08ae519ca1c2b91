-- After a crash, a new checkpointer starts with the new shared memory.
SELECT
    looked.in_recovery,
    extract(epoch FROM looked.start)::pg_catalog.float8 AS start,
    extract(epoch FROM pg_catalog.clock_timestamp() - looked.start)::pg_catalog.float8 AS uptime_seconds,
    CASE WHEN looked.in_recovery AND NOT pg_catalog.pg_is_wal_replay_paused()
        THEN pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_last_wal_receive_lsn(), '0/0')
    END::pg_catalog.int8 AS received,
    CASE WHEN looked.in_recovery
        THEN pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_last_wal_replay_lsn(), '0/0')
    END::pg_catalog.int8 AS replayed
FROM (
    SELECT
        pg_catalog.pg_is_in_recovery(),
        coalesce(
            (SELECT backend_start FROM pg_catalog.pg_stat_activity WHERE backend_type = 'checkpointer'),
            pg_catalog.pg_postmaster_start_time()
        )
) AS looked (in_recovery, start)
