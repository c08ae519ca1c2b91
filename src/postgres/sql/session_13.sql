-- pgthaw's own session: no schema of others is searched, nobody's lock is waited for long, and no query is compiled
-- first (that costs more than these queries take).
SELECT
    set_config('search_path', '', false),
    set_config('lock_timeout', '5s', false),
    set_config('jit', 'off', false)
