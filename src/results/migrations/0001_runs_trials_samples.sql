-- One row per invocation of `bench warmup`. The facts that are asked for as a whole are JSON documents, whose fields
-- docs/formats.md lists; both SQLite and PostgreSQL read into them with ->>.
CREATE TABLE runs (
    id              TEXT PRIMARY KEY,
    started_at      TEXT NOT NULL, -- RFC 3339, UTC, nanoseconds: sorts as text
    ended_at        TEXT,          -- NULL while it runs, or when it was killed
    pgthaw_version  TEXT NOT NULL,
    machine         JSON NOT NULL,
    server          JSON NOT NULL,
    settings        JSON NOT NULL,
    study           JSON NOT NULL,
    steady_tps      DOUBLE PRECISION,
    warnings        JSON NOT NULL
);

-- One row per repetition of a strategy.
CREATE TABLE trials (
    run_id                   TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    strategy                 TEXT NOT NULL,
    repeat                   INTEGER NOT NULL, -- from 1
    position                 INTEGER NOT NULL, -- in the random order, from 1
    started_at               TEXT NOT NULL,
    start_os_resident_bytes  BIGINT NOT NULL,
    start_total_bytes        BIGINT NOT NULL,
    start_verdict            TEXT NOT NULL,    -- cold or lukewarm
    command                  TEXT NOT NULL,
    ended_after_seconds      DOUBLE PRECISION, -- NULL: still running at the end of the trial, or there is no command
    issued_bytes             BIGINT,
    failure                  TEXT,
    warm_after_seconds       DOUBLE PRECISION, -- NULL: not within the trial
    to_50_seconds            DOUBLE PRECISION,
    to_90_seconds            DOUBLE PRECISION,
    to_95_seconds            DOUBLE PRECISION,
    served_until_warm        BIGINT NOT NULL,
    served                   BIGINT NOT NULL,
    device_read_bytes        BIGINT NOT NULL,
    residency                JSON NOT NULL,
    warnings                 JSON NOT NULL,
    PRIMARY KEY (run_id, strategy, repeat)
);

-- One row per second of a trial.
CREATE TABLE samples (
    run_id                 TEXT NOT NULL,
    strategy               TEXT NOT NULL,
    repeat                 INTEGER NOT NULL,
    second                 INTEGER NOT NULL, -- its end, since the start of the workload: 1 for the first
    monotonic_ms           BIGINT NOT NULL,
    wall_ms                BIGINT NOT NULL,
    transactions           BIGINT NOT NULL,
    latency_us_mean        DOUBLE PRECISION,
    latency_us_min         BIGINT,
    latency_us_max         BIGINT,
    foreground_read_bytes  BIGINT NOT NULL,
    device_read_bytes      BIGINT NOT NULL,
    device_reads           BIGINT NOT NULL,
    os_resident_bytes      BIGINT NOT NULL,
    PRIMARY KEY (run_id, strategy, repeat, second),
    FOREIGN KEY (run_id, strategy, repeat) REFERENCES trials (run_id, strategy, repeat) ON DELETE CASCADE
);

-- A trial beside the study that it belongs to: what one compares across runs.
CREATE VIEW trial_summary AS
SELECT trials.run_id,
       runs.started_at                                       AS run_started_at,
       runs.machine ->> 'hostname'                           AS hostname,
       runs.server ->> 'version'                             AS server_version,
       CAST(runs.study ->> 'scale' AS INTEGER)               AS scale,
       CAST(runs.study ->> 'clients' AS INTEGER)             AS clients,
       runs.study ->> 'script'                               AS script,
       runs.study -> 'disk' ->> 'name'                       AS disk,
       CAST(runs.study ->> 'bound_seconds' AS DOUBLE PRECISION) AS bound_seconds,
       runs.steady_tps,
       trials.strategy,
       trials.repeat,
       trials.position,
       trials.start_verdict,
       trials.warm_after_seconds,
       trials.warm_after_seconds / CAST(runs.study ->> 'bound_seconds' AS DOUBLE PRECISION) AS bound_ratio,
       trials.to_50_seconds,
       trials.to_90_seconds,
       trials.to_95_seconds,
       trials.served_until_warm,
       trials.served,
       trials.ended_after_seconds,
       trials.issued_bytes,
       trials.device_read_bytes,
       trials.failure
FROM trials
JOIN runs ON runs.id = trials.run_id;

-- What had been served by the end of each second, and read from the device.
CREATE VIEW served_by_second AS
SELECT run_id,
       strategy,
       repeat,
       second,
       transactions,
       SUM(transactions) OVER trial_so_far      AS served,
       SUM(device_read_bytes) OVER trial_so_far AS device_read_bytes_so_far
FROM samples
WINDOW trial_so_far AS (PARTITION BY run_id, strategy, repeat ORDER BY second);
