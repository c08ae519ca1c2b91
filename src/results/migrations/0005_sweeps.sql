-- One row per sweep, however often it was interrupted.
CREATE TABLE sweeps (
    id               TEXT PRIMARY KEY,
    started_at       TEXT NOT NULL, -- RFC 3339, UTC, nanoseconds: sorts as text
    ended_at         TEXT,          -- NULL until every trial has ended
    pgthaw_version   TEXT NOT NULL,
    pgbench_version  TEXT NOT NULL,
    machine          JSON NOT NULL,
    server           JSON NOT NULL,
    question         TEXT NOT NULL,
    digest           TEXT NOT NULL, -- SHA-256 of what the study file means
    study            JSON NOT NULL, -- as it was understood
    varied           JSON NOT NULL, -- names of the axes with more than one value
    points           INTEGER NOT NULL,
    repeats          INTEGER NOT NULL,
    seed             TEXT NOT NULL, -- 64 bits without a sign
    warnings         JSON NOT NULL
);

-- One row per repetition of a point.
CREATE TABLE sweep_trials (
    sweep_id                 TEXT NOT NULL REFERENCES sweeps (id) ON DELETE CASCADE,
    number                   INTEGER NOT NULL, -- of the point, from 0
    repeat                   INTEGER NOT NULL, -- from 1
    position                 INTEGER NOT NULL, -- in the random order, from 1
    started_at               TEXT NOT NULL,
    point                    JSON NOT NULL,
    start_os_resident_bytes  BIGINT,           -- NULL: it failed before its start
    start_total_bytes        BIGINT,
    start_verdict            TEXT,             -- cold, lukewarm, warm or restored
    command                  TEXT NOT NULL,
    failure                  TEXT,
    lasted_seconds           DOUBLE PRECISION NOT NULL,
    transactions             BIGINT NOT NULL,
    failed                   BIGINT NOT NULL,
    skipped                  BIGINT NOT NULL,
    tps                      DOUBLE PRECISION NOT NULL,
    worst_second_tps         DOUBLE PRECISION,
    latency_us_p50           BIGINT,           -- over all scripts
    latency_us_p99           BIGINT,
    latency                  BYTEA,            -- HdrHistogram V2, compressed
    statistics               JSON NOT NULL,    -- what grew in the server's statistics views
    buffers_before           JSON NOT NULL,
    buffers_after            JSON NOT NULL,
    checkpoints              JSON NOT NULL,
    settings                 JSON NOT NULL,
    device_read_bytes        BIGINT NOT NULL,
    warnings                 JSON NOT NULL,
    PRIMARY KEY (sweep_id, number, repeat)
);

-- One row per script of a trial.
CREATE TABLE sweep_scripts (
    sweep_id  TEXT NOT NULL,
    number    INTEGER NOT NULL,
    repeat    INTEGER NOT NULL,
    place     INTEGER NOT NULL, -- among the scripts of the point, from 0
    script    TEXT NOT NULL,
    answered  BIGINT NOT NULL,
    failed    BIGINT NOT NULL,
    skipped   BIGINT NOT NULL,
    response  BYTEA NOT NULL,   -- HdrHistogram V2, compressed
    service   BYTEA,            -- the same from when it began; NULL without a rate
    PRIMARY KEY (sweep_id, number, repeat, place),
    FOREIGN KEY (sweep_id, number, repeat) REFERENCES sweep_trials (sweep_id, number, repeat) ON DELETE CASCADE
);

-- One row per second of a trial.
CREATE TABLE sweep_samples (
    sweep_id               TEXT NOT NULL,
    number                 INTEGER NOT NULL,
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
    PRIMARY KEY (sweep_id, number, repeat, second),
    FOREIGN KEY (sweep_id, number, repeat) REFERENCES sweep_trials (sweep_id, number, repeat) ON DELETE CASCADE
);

-- A trial beside what it was a trial of.
CREATE VIEW sweep_summary AS
SELECT sweep_trials.sweep_id,
       sweeps.question,
       sweep_trials.number,
       sweep_trials.repeat,
       sweep_trials.position,
       CAST(point ->> 'scale' AS INTEGER)          AS scale,
       CAST(point ->> 'clients' AS INTEGER)        AS clients,
       CAST(point ->> 'jobs' AS INTEGER)           AS jobs,
       point ->> 'script'                          AS script,
       CAST(point ->> 'rate' AS DOUBLE PRECISION)  AS rate,
       point ->> 'start'                           AS start_asked,
       start_verdict,
       point ->> 'disk'                            AS disk,
       point -> 'variables'                        AS variables,
       point -> 'settings'                         AS point_settings,
       tps,
       worst_second_tps,
       latency_us_p50,
       latency_us_p99,
       transactions,
       failed,
       skipped,
       device_read_bytes,
       failure
FROM sweep_trials
JOIN sweeps ON sweeps.id = sweep_trials.sweep_id;
