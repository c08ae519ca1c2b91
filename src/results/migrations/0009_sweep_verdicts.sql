-- What speaks against a trial and against a sweep, each with its kind, figures, sentence and remedy; what pgbench does with an
-- empty statement; whole cycles of checkpoints within a trial. NULL where they are older than these columns.
ALTER TABLE sweep_trials ADD COLUMN verdicts JSON;
ALTER TABLE sweep_trials ADD COLUMN checkpoint_cycles INTEGER;
ALTER TABLE sweep_trials ADD COLUMN cycle_tps DOUBLE PRECISION;
ALTER TABLE sweeps ADD COLUMN verdicts JSON;
ALTER TABLE sweeps ADD COLUMN generator JSON;
