-- Settings of pgthaw's session: short lock waits; no JIT, which costs more than these queries; no parallel workers; no
-- temporary files. Read committed, because a database's owner may have set an isolation level with an old snapshot. No
-- transaction stays open long, even if pgthaw is suspended. Returns the role, which ALTER DATABASE can change. In a
-- SQL_ASCII database, client_encoding is SQL_ASCII too, because with UTF8 the server would reject names that are not
-- valid UTF-8.
SELECT
    current_user::pg_catalog.text AS role,
    pg_catalog.set_config('lock_timeout', '2s', false),
    pg_catalog.set_config('default_transaction_isolation', 'read committed', false),
    pg_catalog.set_config('idle_in_transaction_session_timeout', '5s', false),
    CASE WHEN pg_catalog.current_setting('server_version_num')::integer >= 170000
        THEN pg_catalog.set_config('transaction_timeout', '1h', false)
    END,
    pg_catalog.set_config('jit', 'off', false),
    pg_catalog.set_config('max_parallel_workers_per_gather', '0', false),
    pg_catalog.set_config('work_mem', '64MB', false),
    CASE pg_catalog.getdatabaseencoding()
        WHEN 'SQL_ASCII' THEN pg_catalog.set_config('client_encoding', 'SQL_ASCII', false)
    END
