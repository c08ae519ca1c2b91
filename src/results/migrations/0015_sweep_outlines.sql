-- A trial of a sweep in the few figures that pictures over its points need. Side by side, for the rows of sweep_trials lie among
-- the seconds of all trials, and to read 10,000 of them is to read as many places of the file. Trials that are older have none.
CREATE TABLE sweep_outlines (
    sweep_id           TEXT NOT NULL,
    number             INTEGER NOT NULL,
    repeat             INTEGER NOT NULL,
    position           INTEGER NOT NULL,
    started_at         TEXT NOT NULL,
    point              JSON NOT NULL,
    start_verdict      TEXT,
    failure            TEXT,
    tps                DOUBLE PRECISION NOT NULL,
    worst_second_tps   DOUBLE PRECISION,
    latency_us_p50     BIGINT,
    latency_us_p95     BIGINT,
    latency_us_p99     BIGINT,
    latency_us_p999    BIGINT,
    device_read_bytes  BIGINT NOT NULL,
    late               BIGINT NOT NULL,
    skipped            BIGINT NOT NULL,
    checkpoint_count   INTEGER NOT NULL,
    background         JSON NOT NULL, -- who wrote buffers out, and what made the checkpoints
    verdicts           JSON NOT NULL,
    warnings           JSON NOT NULL,
    PRIMARY KEY (sweep_id, number, repeat),
    FOREIGN KEY (sweep_id, number, repeat) REFERENCES sweep_trials (sweep_id, number, repeat) ON DELETE CASCADE
);
