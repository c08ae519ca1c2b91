-- The client backends that call themselves so.
SELECT a.pid
FROM pg_catalog.pg_stat_activity a
WHERE a.backend_type = 'client backend'
  AND a.application_name = $1
