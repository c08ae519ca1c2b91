-- What the devices did that parts of a server had to themselves, the copy of the databases that a trial ran on, and the looks that saw
-- the log being flushed. NULL of trials that are older, or have no such thing.
ALTER TABLE sweep_trials ADD COLUMN devices JSON;
ALTER TABLE sweep_trials ADD COLUMN fresh_copy JSON;
ALTER TABLE sweep_os_samples ADD COLUMN parts JSON;
ALTER TABLE sweep_wait_samples ADD COLUMN flushes JSON;
