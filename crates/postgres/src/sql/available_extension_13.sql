-- The version of extension $1 that CREATE EXTENSION would install; no row when its files are not on the server's host.
SELECT default_version FROM pg_catalog.pg_available_extensions WHERE name = $1
