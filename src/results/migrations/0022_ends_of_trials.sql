-- When each trial ended, and what it read each second, wrote at once and took of the processors. NULL of trials that are older.
ALTER TABLE sweep_trials ADD COLUMN ended_at TEXT;
ALTER TABLE sweep_outlines ADD COLUMN ended_at TEXT;
ALTER TABLE sweep_outlines ADD COLUMN device_reads_per_second DOUBLE PRECISION;
ALTER TABLE sweep_outlines ADD COLUMN device_reads_per_second_max DOUBLE PRECISION;
ALTER TABLE sweep_outlines ADD COLUMN device_bytes_per_write DOUBLE PRECISION;
ALTER TABLE sweep_outlines ADD COLUMN server_cpu_us_per_transaction DOUBLE PRECISION;
