-- Sets search_path until the transaction ends.
SELECT pg_catalog.set_config('search_path', $1, true)
