-- What a server says of itself. A setting that this role may not see, or that this version does not have, is NULL.
SELECT
    current_setting('server_version') AS version,
    current_setting('server_version_num')::int AS version_num,
    (SELECT system_identifier FROM pg_control_system()) AS system_identifier,
    current_setting('block_size')::int AS block_size,
    (SELECT setting::bigint FROM pg_settings WHERE name = 'segment_size') AS segment_blocks,
    (SELECT setting::bigint FROM pg_settings WHERE name = 'shared_buffers') AS shared_buffers_blocks,
    (SELECT setting FROM pg_settings WHERE name = 'data_directory') AS data_directory,
    current_setting('cluster_name') AS cluster_name,
    (SELECT setting FROM pg_settings WHERE name = 'debug_io_direct') AS debug_io_direct,
    (SELECT setting FROM pg_settings WHERE name = 'io_method') AS io_method,
    current_setting('is_superuser') = 'on' AS is_superuser,
    current_user::text AS role,
    pg_backend_pid() AS backend_pid,
    -- A difference, as the server's clock may not be ours.
    extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())::float8 AS uptime_seconds,
    pg_is_in_recovery() AS in_recovery,
    CASE WHEN pg_is_in_recovery()
         THEN pg_last_wal_replay_lsn()
         ELSE pg_current_wal_lsn()
    END::text AS lsn,
    -- A primary's own timeline is in the name of the segment it writes; a standby's is that of its last restartpoint.
    CASE WHEN pg_is_in_recovery()
         THEN (SELECT timeline_id FROM pg_control_checkpoint())
         ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int
    END AS timeline
