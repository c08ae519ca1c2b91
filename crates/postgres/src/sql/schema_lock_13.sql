SELECT
    d.datname::pg_catalog.text,
    pg_catalog.format('process %s (role "%s") holds %s on pg_namespace', l.pid, a.usename, l.mode)
FROM pg_catalog.pg_database d
JOIN pg_catalog.pg_locks l ON l.database = d.oid AND l.relation = 'pg_catalog.pg_namespace'::pg_catalog.regclass
LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
WHERE d.datname = pg_catalog.current_database()
  AND l.granted
  AND l.mode NOT IN ('AccessShareLock', 'RowShareLock', 'ShareLock')
LIMIT 1
