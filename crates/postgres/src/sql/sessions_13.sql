-- Hidden values are NULL. Avoids pg_stat_activity, which joins more catalogs.
SELECT activity.pid, activity.backend_type AS backend,
       CAST(pg_catalog.pg_get_userbyid(activity.usesysid) AS pg_catalog.text) AS "user",
       CAST(database.datname AS pg_catalog.text) AS database, activity.application_name,
       activity.query, activity.wait_event_type AS event_type, activity.wait_event AS event,
       CAST(EXTRACT(EPOCH FROM activity.backend_start) * 1000000 AS pg_catalog.int8) AS started_us, activity.state,
       CAST(EXTRACT(EPOCH FROM pg_catalog.clock_timestamp() - activity.state_change) * 1000 AS pg_catalog.int8) AS state_ms
FROM pg_catalog.pg_stat_get_activity(NULL) AS activity
LEFT JOIN pg_catalog.pg_database AS database ON database.oid = activity.datid
