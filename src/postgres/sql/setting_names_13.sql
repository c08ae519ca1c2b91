-- Every setting that the server knows.
SELECT name FROM pg_settings
