-- The databases, and which of them this role can connect to. datconnlimit -2 marks one whose DROP was interrupted.
SELECT
    oid,
    datname,
    datallowconn AND datconnlimit <> -2 AND pg_catalog.has_database_privilege(oid, 'CONNECT') AS allows_connections
FROM pg_catalog.pg_database
ORDER BY datname
