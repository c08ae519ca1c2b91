-- Every setting with the value that new sessions begin with, and its unit.
SELECT name, reset_val AS value, unit, source FROM pg_catalog.pg_settings ORDER BY name
