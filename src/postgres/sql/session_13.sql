-- pgthaw's own session: no schema of others is searched, nobody's lock is waited for long, no query is compiled first
-- (that costs more than these queries take), and none takes other processes or writes temporary files.
SELECT
    set_config('search_path', '', false),
    set_config('lock_timeout', '2s', false),
    set_config('jit', 'off', false),
    set_config('max_parallel_workers_per_gather', '0', false),
    set_config('work_mem', '64MB', false)
