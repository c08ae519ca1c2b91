-- pgthaw's own session: nobody's lock is waited for long, no query is compiled first (that costs more than these queries
-- take), and none takes other processes or writes temporary files. Whose session it is: ALTER DATABASE can give it a role.
-- A database's owner may have set that a transaction sees nothing that is committed after it began. No transaction of pgthaw's stays open
-- for long, even where pgthaw itself is stopped; 17 has a limit for statements too.
-- In a database whose encoding is unknown names come as they are: to send them as UTF-8 the server would check them.
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
