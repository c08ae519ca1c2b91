-- pgthaw's own session: no schema of others is searched, nobody's lock is waited for long, no query is compiled first
-- (that costs more than these queries take), and none takes other processes or writes temporary files.
-- In a database whose encoding is unknown names come as they are: to send them as UTF-8 the server would check them.
SELECT
    set_config('search_path', '', false),
    set_config('lock_timeout', '2s', false),
    set_config('jit', 'off', false),
    set_config('max_parallel_workers_per_gather', '0', false),
    set_config('work_mem', '64MB', false),
    CASE getdatabaseencoding() WHEN 'SQL_ASCII' THEN set_config('client_encoding', 'SQL_ASCII', false) END
