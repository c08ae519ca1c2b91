-- Excludes sleeping background processes. Avoids pg_stat_activity, which joins catalogs that a cold server would have
-- to read.
SELECT backend_type, state, wait_event_type AS event_type, wait_event AS event, pg_catalog.count(*) AS observed,
       pg_catalog.count(backend_xid) AS writing
FROM pg_catalog.pg_stat_get_activity(NULL)
WHERE pid <> pg_catalog.pg_backend_pid() AND wait_event_type IS DISTINCT FROM 'Activity'
GROUP BY 1, 2, 3, 4
