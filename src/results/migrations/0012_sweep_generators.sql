-- The hosts that made a trial's load together; NULL where pgbench ran beside pgthaw.
ALTER TABLE sweep_trials ADD COLUMN generators JSON;
