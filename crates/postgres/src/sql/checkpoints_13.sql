-- Since 17 checkpoints have their own view, with other names of columns. wal_bytes counts from the redo point of the last
-- checkpoint.
SELECT CAST(coalesce(s.counters ->> 'num_timed', s.counters ->> 'checkpoints_timed') AS pg_catalog.int8) AS timed,
       CAST(coalesce(s.counters ->> 'num_requested', s.counters ->> 'checkpoints_req') AS pg_catalog.int8) AS requested,
       CAST(coalesce(s.counters ->> 'write_time', s.counters ->> 'checkpoint_write_time') AS pg_catalog.float8) AS write_ms,
       CAST(coalesce(s.counters ->> 'sync_time', s.counters ->> 'checkpoint_sync_time') AS pg_catalog.float8) AS sync_ms,
       CAST(coalesce(s.counters ->> 'buffers_written', s.counters ->> 'buffers_checkpoint') AS pg_catalog.int8) AS buffers,
       CAST(pg_catalog.pg_wal_lsn_diff(
           CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_lsn() END,
           c.redo_lsn) AS pg_catalog.int8) AS wal_bytes,
       CAST(EXTRACT(EPOCH FROM pg_catalog.clock_timestamp() - c.checkpoint_time) AS pg_catalog.float8) AS since_seconds,
       CAST(EXTRACT(EPOCH FROM CAST(pg_catalog.current_setting('checkpoint_timeout') AS pg_catalog.interval)) AS pg_catalog.float8) AS timeout_seconds,
       pg_catalog.pg_size_bytes(pg_catalog.current_setting('max_wal_size')) AS max_wal_bytes
FROM (SELECT pg_catalog.to_jsonb(v) FROM pg_catalog.{view} AS v) AS s (counters)
CROSS JOIN pg_catalog.pg_control_checkpoint() AS c
