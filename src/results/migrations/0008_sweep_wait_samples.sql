-- One row per second of a trial of a sweep in which there was a look at what the server's processes wait for.
CREATE TABLE sweep_wait_samples (
    sweep_id  TEXT NOT NULL,
    number    INTEGER NOT NULL,
    repeat    INTEGER NOT NULL,
    second    INTEGER NOT NULL, -- its end, since the start of the workload: 1 for the first
    looks     INTEGER NOT NULL,
    waits     JSON NOT NULL,    -- how many processes were seen in each state; divided by the looks: in the mean
    PRIMARY KEY (sweep_id, number, repeat, second),
    FOREIGN KEY (sweep_id, number, repeat) REFERENCES sweep_trials (sweep_id, number, repeat) ON DELETE CASCADE
);

-- The same over the whole trial; a checkpoint that began within it and did not end; transactions that were tried more than
-- once, and how often. NULL in trials that are older than these columns.
ALTER TABLE sweep_trials ADD COLUMN waits JSON;
ALTER TABLE sweep_trials ADD COLUMN checkpoint_begun JSON;
ALTER TABLE sweep_trials ADD COLUMN retried BIGINT;
ALTER TABLE sweep_trials ADD COLUMN retries BIGINT;

-- Every setting of the server before the first trial; a trial's own are in its `settings`.
ALTER TABLE sweeps ADD COLUMN configuration JSON;
