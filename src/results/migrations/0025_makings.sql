-- How long the databases of a study took to make, and the standard deviation of the latencies of a second. NULL of what is older.
ALTER TABLE sweeps ADD COLUMN databases JSON;
ALTER TABLE sweep_samples ADD COLUMN latency_us_deviation DOUBLE PRECISION;
