-- What these settings need to change, where they are from, and whether a changed value waits for a restart.
SELECT name, context, source, pending_restart FROM pg_settings WHERE name = ANY($1)
