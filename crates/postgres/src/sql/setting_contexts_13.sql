-- What these settings are and need to change, where they are from, whether a changed value waits for a restart, and what
-- new sessions begin with.
SELECT name, context, source, pending_restart, vartype AS kind, unit, enumvals AS allowed, reset_val AS value
FROM pg_catalog.pg_settings
WHERE name = ANY($1)
