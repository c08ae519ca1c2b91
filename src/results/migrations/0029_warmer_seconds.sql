-- When what warmed the server had ended, or the job beside the load. NULL where neither was there, or had not ended, and of trials that are older.
ALTER TABLE sweep_outlines ADD COLUMN warmer_seconds DOUBLE PRECISION;
