-- What the session has done is told to the statistics when this ends, and not when it is over.
SELECT pg_catalog.pg_stat_force_next_flush()
