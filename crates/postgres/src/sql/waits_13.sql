-- What the server's processes wait for at this moment, counted, and how many of them have a transaction that has written. The
-- function beneath pg_stat_activity is asked, for the view joins catalogs that a cold server would have to read. Background
-- processes that sleep until there is something to do are left out.
SELECT backend_type, state, wait_event_type, wait_event, pg_catalog.count(*) AS observed,
       pg_catalog.count(backend_xid) AS writing
FROM pg_catalog.pg_stat_get_activity(NULL)
WHERE pid <> pg_catalog.pg_backend_pid() AND wait_event_type IS DISTINCT FROM 'Activity'
GROUP BY 1, 2, 3, 4
