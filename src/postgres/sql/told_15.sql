-- What the session has done is told to the statistics when this ends, and not up to a second later.
CROSS JOIN pg_catalog.pg_stat_force_next_flush() AS told
