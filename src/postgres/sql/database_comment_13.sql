-- The comment on a database.
SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = $1
