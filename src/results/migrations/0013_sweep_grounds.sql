-- Of a trial: transactions above the latency limit, the file system that was made for it as it was read back, and its server's
-- version. NULL where they are older than these columns.
ALTER TABLE sweep_trials ADD COLUMN late BIGINT;
ALTER TABLE sweep_trials ADD COLUMN file_system JSON;
ALTER TABLE sweep_trials ADD COLUMN server_version TEXT;
