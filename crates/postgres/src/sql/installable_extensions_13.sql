-- Extensions whose files the server has, created or not.
SELECT name::pg_catalog.text FROM pg_catalog.pg_available_extensions ORDER BY name
