-- Hidden or missing settings are NULL.
SELECT
    pg_catalog.current_setting('server_version') AS version,
    pg_catalog.current_setting('server_version_num')::int AS version_num,
    (SELECT system_identifier FROM pg_catalog.pg_control_system()) AS system_identifier,
    pg_catalog.current_setting('block_size')::int AS block_size,
    (SELECT setting::bigint FROM pg_catalog.pg_settings WHERE name = 'segment_size') AS segment_blocks,
    (SELECT setting::bigint * pg_catalog.current_setting('block_size')::int FROM pg_catalog.pg_settings WHERE name = 'shared_buffers')
        AS shared_buffers_bytes,
    (SELECT setting FROM pg_catalog.pg_settings WHERE name = 'data_directory') AS data_directory,
    pg_catalog.current_setting('cluster_name') AS cluster_name,
    (SELECT setting FROM pg_catalog.pg_settings WHERE name = 'debug_io_direct') AS debug_io_direct,
    (SELECT setting FROM pg_catalog.pg_settings WHERE name = 'io_method') AS io_method,
    pg_catalog.current_setting('is_superuser') = 'on' AS is_superuser,
    current_user::pg_catalog.text AS role,
    pg_catalog.pg_backend_pid() AS backend_pid,
    -- Uptime, because the server's clock may differ from this host's.
    extract(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.pg_postmaster_start_time())::pg_catalog.float8
        AS uptime_seconds,
    pg_catalog.pg_is_in_recovery() AS in_recovery,
    CASE WHEN pg_catalog.pg_is_in_recovery()
         THEN pg_catalog.pg_last_wal_replay_lsn()
         ELSE pg_catalog.pg_current_wal_lsn()
    END::pg_catalog.text AS lsn,
    -- A primary's current segment name contains the timeline; a standby's last restartpoint has it.
    CASE WHEN pg_catalog.pg_is_in_recovery()
         THEN (SELECT timeline_id FROM pg_catalog.pg_control_checkpoint())
         ELSE ('x' || pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8))::bit(32)::int
    END AS timeline,
    -- Source of a standby's WAL; NULL if hidden or disconnected.
    (SELECT sender_host FROM pg_catalog.pg_stat_wal_receiver) AS sender_host,
    (SELECT sender_port FROM pg_catalog.pg_stat_wal_receiver) AS sender_port
