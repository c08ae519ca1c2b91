-- Excludes sleeping background processes. Uses the function under pg_stat_activity: the view joins catalogs, which a
-- cold server would read.
SELECT backend_type, state, wait_event_type, wait_event, pg_catalog.count(*) AS observed,
       pg_catalog.count(backend_xid) AS writing
FROM pg_catalog.pg_stat_get_activity(NULL)
WHERE pid <> pg_catalog.pg_backend_pid() AND wait_event_type IS DISTINCT FROM 'Activity'
GROUP BY 1, 2, 3, 4
