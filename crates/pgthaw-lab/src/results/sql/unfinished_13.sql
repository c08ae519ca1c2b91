-- A transaction whose locks show that it may be adding an object to schema pgthaw, or a trigger, rule or foreign key to
-- the schema's tables. What it adds is not visible yet.
-- Adding a function or operator takes no lock, but is harmless: pg_catalog, searched first, has the functions and
-- operators for all types used. Requires an empty search_path.
SELECT
    coalesce(
        'process ' || l.pid::pg_catalog.text, 'prepared transaction ' || prepared.gid, 'a prepared transaction') AS what,
    coalesce(r.rolname::pg_catalog.text, 'an unknown role') AS role
FROM pg_catalog.pg_locks l
JOIN pg_catalog.pg_database d ON d.oid = l.database AND d.datname = pg_catalog.current_database()
JOIN pg_catalog.pg_namespace n ON n.nspname = 'pgthaw'
LEFT JOIN pg_catalog.pg_class c ON c.oid = l.relation AND c.relnamespace = n.oid
LEFT JOIN pg_catalog.pg_locks AS own
    ON l.pid IS NULL AND own.pid IS NULL AND own.locktype = 'transactionid' AND own.virtualtransaction = l.virtualtransaction
LEFT JOIN pg_catalog.pg_prepared_xact() AS prepared ON prepared.transaction = own.transactionid
LEFT JOIN pg_catalog.pg_stat_get_activity(NULL) AS activity ON activity.pid = l.pid
LEFT JOIN pg_catalog.pg_roles r ON r.oid = coalesce(prepared.ownerid, activity.usesysid)
WHERE l.pid IS DISTINCT FROM pg_catalog.pg_backend_pid()
  AND NOT coalesce(r.rolsuper OR r.rolname = session_user, false)
  AND ((l.locktype = 'object' AND l.classid = 'pg_catalog.pg_namespace'::pg_catalog.regclass AND l.objid = n.oid)
       OR (c.oid IS NOT NULL AND l.mode IN ('ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')))
ORDER BY 1
LIMIT 1
