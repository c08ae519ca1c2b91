-- One row per invocation of `bench residency`.
CREATE TABLE loading_runs (
    id              TEXT PRIMARY KEY,
    started_at      TEXT NOT NULL, -- RFC 3339, UTC, nanoseconds: sorts as text
    ended_at        TEXT,          -- NULL while it runs, or when it was killed
    pgthaw_version  TEXT NOT NULL,
    machine         JSON NOT NULL,
    server          JSON NOT NULL,
    settings        JSON NOT NULL,
    study           JSON NOT NULL,
    warnings        JSON NOT NULL
);

-- One row per loader and round.
CREATE TABLE loading_trials (
    run_id                   TEXT NOT NULL REFERENCES loading_runs (id) ON DELETE CASCADE,
    loader                   TEXT NOT NULL,
    round                    INTEGER NOT NULL, -- from 1
    position                 INTEGER NOT NULL, -- in the random order, from 1
    started_at               TEXT NOT NULL,
    start_os_resident_bytes  BIGINT NOT NULL,
    start_total_bytes        BIGINT NOT NULL,
    start_verdict            TEXT NOT NULL,    -- cold or lukewarm
    command                  TEXT NOT NULL,
    resident_after_seconds   DOUBLE PRECISION, -- NULL: not within the patience, or it leaves nothing in the page cache
    buffers_after_seconds    DOUBLE PRECISION, -- NULL: the same of shared_buffers
    ended_after_seconds      DOUBLE PRECISION,
    own_bytes                BIGINT,
    own_seconds              DOUBLE PRECISION,
    resident_bytes           BIGINT NOT NULL,  -- of the wanted ones, at the end
    cpu_seconds              DOUBLE PRECISION,
    device_read_bytes        BIGINT,
    device_reads             BIGINT,
    failure                  TEXT,
    output                   TEXT NOT NULL,
    samples                  JSON NOT NULL,    -- one per look at the page cache
    warnings                 JSON NOT NULL,
    PRIMARY KEY (run_id, loader, round)
);

-- A trial beside what was wanted: what one compares across runs.
CREATE VIEW loading_summary AS
SELECT loading_trials.run_id,
       loading_runs.started_at                                        AS run_started_at,
       loading_runs.machine ->> 'hostname'                            AS hostname,
       CAST(study ->> 'scale' AS INTEGER)                             AS scale,
       study ->> 'script'                                             AS script,
       study -> 'disk' ->> 'name'                                     AS disk,
       CAST(study ->> 'wanted_bytes' AS BIGINT)                       AS wanted_bytes,
       CAST(study -> 'bound' ->> 'seconds' AS DOUBLE PRECISION)       AS bound_seconds,
       loader,
       round,
       start_verdict,
       resident_after_seconds,
       resident_after_seconds / CAST(study -> 'bound' ->> 'seconds' AS DOUBLE PRECISION) AS bound_ratio,
       buffers_after_seconds,
       cpu_seconds,
       device_read_bytes,
       device_reads,
       failure
FROM loading_trials
JOIN loading_runs ON loading_runs.id = loading_trials.run_id;
