-- datconnlimit -2 marks an interrupted DROP.
SELECT
    oid,
    datname,
    datallowconn AND datconnlimit <> -2 AND pg_catalog.has_database_privilege(oid, 'CONNECT') AS allows_connections
FROM pg_catalog.pg_database
ORDER BY datname
