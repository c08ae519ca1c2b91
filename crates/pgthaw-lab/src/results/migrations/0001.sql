-- One row per study, however often it was interrupted. Facts that are asked for as a whole are JSON documents, whose fields docs/formats.md
-- lists; both SQLite and PostgreSQL read into them with ->>.
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
    configuration    JSON NOT NULL, -- every setting of the server before the first trial
    generator        JSON NOT NULL, -- what pgbench does with an empty statement
    databases        JSON NOT NULL, -- how long each took to make
    verdicts         JSON NOT NULL, -- what speaks against the study, each with its kind, figures, sentence and remedy
    warnings         JSON NOT NULL, -- the same as texts
    warmup           JSON,          -- what was found before the trials; NULL of a study that is not one of ways to warm
    source           TEXT           -- what it was imported from; NULL: pgthaw measured it
);

-- One row per repetition of a point.
CREATE TABLE sweep_trials (
    sweep_id                 TEXT NOT NULL REFERENCES sweeps (id) ON DELETE CASCADE,
    number                   INTEGER NOT NULL, -- of the point, from 0
    repeat                   INTEGER NOT NULL, -- from 1
    position                 INTEGER NOT NULL, -- in the random order, from 1
    started_at               TEXT NOT NULL,
    ended_at                 TEXT,
    point                    JSON NOT NULL,
    server_version           TEXT,
    start_state              JSON,             -- NULL: it failed before its start
    command                  TEXT NOT NULL,
    failure                  TEXT,
    lasted_seconds           DOUBLE PRECISION NOT NULL,
    transactions             BIGINT NOT NULL,
    failed                   BIGINT NOT NULL,
    skipped                  BIGINT NOT NULL,
    late                     BIGINT NOT NULL,  -- above the latency limit
    retried                  BIGINT NOT NULL,
    retries                  BIGINT NOT NULL,
    tps                      DOUBLE PRECISION NOT NULL,
    worst_second_tps         DOUBLE PRECISION,
    checkpoint_cycles        INTEGER NOT NULL, -- whole ones within the trial
    cycle_tps                DOUBLE PRECISION,
    latency                  BYTEA,            -- HdrHistogram V2, compressed
    statistics               JSON NOT NULL,    -- what grew in the server's statistics views
    buffers_before           JSON NOT NULL,
    buffers_after            JSON NOT NULL,
    checkpoints              JSON NOT NULL,
    checkpoint_begun         JSON,             -- one that did not end within the trial
    settings                 JSON NOT NULL,
    device_read_bytes        BIGINT NOT NULL,
    waits                    JSON NOT NULL,
    time                     JSON,             -- where the time of the server's processes went; NULL: nobody looked
    generators               JSON,             -- the hosts that made the load; NULL: pgbench ran beside pgthaw
    file_system              JSON,             -- made for the trial, as it was read back
    devices                  JSON NOT NULL,    -- those that parts of the server had to themselves
    fresh_copy               JSON,             -- the copy of the databases that it ran on
    strategy_outcome         JSON,             -- of what warmed the server beside the load
    warming                  JSON,             -- how a trial that began cold got warm
    verdicts                 JSON NOT NULL,
    warnings                 JSON NOT NULL,
    PRIMARY KEY (sweep_id, number, repeat)
);

-- A trial in the few figures that pictures over its points need. Side by side, for the rows of sweep_trials lie among the seconds of all
-- trials, and to read 10,000 of them is to read as many places of the file.
CREATE TABLE sweep_outlines (
    sweep_id           TEXT NOT NULL,
    number             INTEGER NOT NULL,
    repeat             INTEGER NOT NULL,
    position           INTEGER NOT NULL,
    started_at         TEXT NOT NULL,
    ended_at           TEXT,
    point              JSON NOT NULL,
    start_verdict      TEXT,
    failure            TEXT,
    figures            JSON NOT NULL, -- as `--json` has them, of those that follow from the trial alone
    background         JSON NOT NULL, -- who wrote buffers out, and what made the checkpoints
    verdicts           JSON NOT NULL,
    warnings           JSON NOT NULL,
    warming            JSON,
    time               JSON,
    PRIMARY KEY (sweep_id, number, repeat),
    FOREIGN KEY (sweep_id, number, repeat) REFERENCES sweep_trials (sweep_id, number, repeat) ON DELETE CASCADE
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
    latency_us_deviation   DOUBLE PRECISION,
    foreground_read_bytes  BIGINT NOT NULL,
    device_read_bytes      BIGINT NOT NULL,
    device_reads           BIGINT NOT NULL,
    os_resident_bytes      BIGINT NOT NULL,
    PRIMARY KEY (sweep_id, number, repeat, second),
    FOREIGN KEY (sweep_id, number, repeat) REFERENCES sweep_trials (sweep_id, number, repeat) ON DELETE CASCADE
);

-- One row per second of a trial: what the machine did. Seconds of processor time within one second are processors in use.
CREATE TABLE sweep_os_samples (
    sweep_id                    TEXT NOT NULL,
    number                      INTEGER NOT NULL,
    repeat                      INTEGER NOT NULL,
    second                      INTEGER NOT NULL, -- its end, since the start of the workload: 1 for the first
    measures                    JSON NOT NULL,    -- by name, without those that the second does not have
    lists                       JSON NOT NULL,    -- threads of pgbench, processes by what they are for, devices of parts
    PRIMARY KEY (sweep_id, number, repeat, second),
    FOREIGN KEY (sweep_id, number, repeat) REFERENCES sweep_trials (sweep_id, number, repeat) ON DELETE CASCADE
);

-- One row per second of a trial in which there was a look at what the server's processes wait for.
CREATE TABLE sweep_wait_samples (
    sweep_id  TEXT NOT NULL,
    number    INTEGER NOT NULL,
    repeat    INTEGER NOT NULL,
    second    INTEGER NOT NULL, -- its end, since the start of the workload: 1 for the first
    seen      JSON NOT NULL,    -- looks, and how many processes were seen in each state; looks that saw the log being flushed
    PRIMARY KEY (sweep_id, number, repeat, second),
    FOREIGN KEY (sweep_id, number, repeat) REFERENCES sweep_trials (sweep_id, number, repeat) ON DELETE CASCADE
);

-- What was written here and belongs on a server that does not have it yet. On the server itself it stays empty.
CREATE TABLE unsent (
    server   TEXT NOT NULL, -- its address, without what is secret
    kind     TEXT NOT NULL, -- sweep or sweep trial
    id       TEXT NOT NULL, -- of the sweep
    number   INTEGER NOT NULL,
    repeat   INTEGER NOT NULL,
    changes  BIGINT NOT NULL, -- how often it was written since it was sent
    PRIMARY KEY (server, kind, id, number, repeat)
);

-- Every study.
CREATE VIEW all_runs AS
SELECT id,
       CASE
           WHEN CAST(study ->> 'is_warmup' AS TEXT) IN ('1', 'true') THEN 'warmup'
           WHEN study ->> 'until' = 'resident' THEN 'residency'
           ELSE 'sweep'
       END                                          AS kind,
       question,
       started_at,
       ended_at,
       machine ->> 'hostname'                       AS hostname,
       machine ->> 'kernel'                         AS kernel,
       CAST(machine ->> 'cores' AS INTEGER)         AS cores,
       CAST(machine ->> 'memory_bytes' AS BIGINT)   AS memory_bytes,
       server ->> 'version'                         AS server_version,
       pgthaw_version,
       source,
       (SELECT count(*) FROM sweep_trials WHERE sweep_trials.sweep_id = sweeps.id) AS trials,
       databases
FROM sweeps;

-- Trials with the values of their points. The views below read it.
CREATE VIEW sweep_trial_points AS
SELECT sweep_trials.*,
       CAST(point ->> 'scale' AS INTEGER)                     AS scale,
       CAST(point ->> 'clients' AS INTEGER)                   AS clients,
       CAST(point ->> 'jobs' AS INTEGER)                      AS jobs,
       point ->> 'script'                                     AS script,
       CAST(point ->> 'rate' AS DOUBLE PRECISION)             AS rate,
       CAST(point ->> 'latency_limit_ms' AS DOUBLE PRECISION) AS latency_limit_ms,
       point ->> 'start'                                      AS start_asked,
       point ->> 'strategy'                                   AS strategy,
       point ->> 'disk'                                       AS disk,
       point ->> 'file_system'                                AS point_file_system,
       point ->> 'server'                                     AS server,
       point ->> 'database'                                   AS database,
       point ->> 'side'                                       AS side,
       point -> 'variables'                                   AS variables,
       point -> 'settings'                                    AS point_settings,
       point ->> 'query_mode'                                 AS query_mode,
       CAST(point ->> 'memory' AS BIGINT)                     AS memory_bytes,
       point ->> 'places'                                     AS places
FROM sweep_trials;

-- How the throughput of trials that began cold climbed, step by step; a trial has no more steps than seconds.
CREATE VIEW sweep_climbs AS
SELECT sweep_samples.sweep_id,
       sweep_samples.number,
       sweep_samples.repeat,
       CAST(warming -> 'climb' -> (second - 1) ->> 'seconds' AS DOUBLE PRECISION) AS seconds,
       CAST(warming -> 'climb' -> (second - 1) ->> 'tps' AS DOUBLE PRECISION)     AS tps
FROM sweep_samples
JOIN sweep_outlines ON sweep_outlines.sweep_id = sweep_samples.sweep_id
                   AND sweep_outlines.number = sweep_samples.number
                   AND sweep_outlines.repeat = sweep_samples.repeat;

-- A trial beside what it was a trial of. The steady throughput of a study of ways to warm is the median of what its trials served once they
-- were warm; shares of it are reached at the first step of the climb that is so high.
CREATE VIEW sweep_summary AS
WITH warm AS (
    SELECT sweep_id, CAST(warming ->> 'warm_tps' AS DOUBLE PRECISION) AS tps
    FROM sweep_outlines
    WHERE failure IS NULL
),
ranked AS (
    SELECT sweep_id,
           tps,
           row_number() OVER (PARTITION BY sweep_id ORDER BY tps) AS place,
           count(*) OVER (PARTITION BY sweep_id)                  AS trials
    FROM warm
    WHERE tps IS NOT NULL
),
levels AS (
    SELECT sweep_id, CAST(avg(CASE WHEN place * 2 BETWEEN trials AND trials + 2 THEN tps END) AS DOUBLE PRECISION) AS tps
    FROM ranked
    GROUP BY sweep_id
),
steady AS (
    SELECT sweeps.id AS sweep_id,
           coalesce(levels.tps, CAST(warmup ->> 'calibration_tps' AS DOUBLE PRECISION)) AS tps
    FROM sweeps
    LEFT JOIN levels ON levels.sweep_id = sweeps.id
    WHERE CAST(sweeps.study ->> 'is_warmup' AS TEXT) IN ('1', 'true')
)
SELECT sweep_trials.sweep_id,
       sweeps.question,
       sweep_trials.number, sweep_trials.repeat, sweep_trials.position, sweep_trials.started_at,
       sweep_trials.scale, sweep_trials.clients, sweep_trials.jobs, sweep_trials.script, sweep_trials.rate,
       sweep_trials.latency_limit_ms, sweep_trials.start_asked,
       sweep_trials.start_state ->> 'verdict'                              AS start_verdict,
       sweep_trials.strategy, sweep_trials.disk, sweep_trials.point_file_system AS file_system, sweep_trials.server,
       sweep_trials.database,
       sweep_trials.server_version,
       sweep_trials.side, sweep_trials.variables, sweep_trials.point_settings,
       sweep_trials.lasted_seconds,
       CASE WHEN sweep_trials.warming -> 'brought' IS NULL THEN sweep_trials.tps END AS tps,
       sweep_trials.worst_second_tps,
       sweep_trials.checkpoint_cycles,
       sweep_trials.cycle_tps,
       CAST(CAST(sweep_outlines.figures ->> 'latency_us_p50' AS DOUBLE PRECISION) AS BIGINT) AS latency_us_p50,
       CAST(CAST(sweep_outlines.figures ->> 'latency_us_p95' AS DOUBLE PRECISION) AS BIGINT) AS latency_us_p95,
       CAST(CAST(sweep_outlines.figures ->> 'latency_us_p99' AS DOUBLE PRECISION) AS BIGINT) AS latency_us_p99,
       CAST(CAST(sweep_outlines.figures ->> 'latency_us_p999' AS DOUBLE PRECISION) AS BIGINT) AS latency_us_p999,
       sweep_trials.transactions, sweep_trials.failed, sweep_trials.skipped, sweep_trials.late, sweep_trials.retried,
       sweep_trials.retries, sweep_trials.device_read_bytes,
       CAST(sweep_outlines.figures ->> 'device_writes_per_second' AS DOUBLE PRECISION) AS device_writes_per_second,
       CAST(CAST(sweep_outlines.figures ->> 'device_written_bytes' AS DOUBLE PRECISION) AS BIGINT) AS device_written_bytes,
       sweep_trials.failure,
       CAST(sweep_trials.warming ->> 'warm_after_seconds' AS DOUBLE PRECISION) AS warm_after_seconds,
       CAST(sweep_trials.warming ->> 'bound_seconds' AS DOUBLE PRECISION)      AS bound_seconds,
       CAST(sweep_trials.warming ->> 'served_until_warm' AS BIGINT)            AS served_until_warm,
       CAST(sweep_trials.warming ->> 'warm_tps' AS DOUBLE PRECISION)           AS warm_tps,
       sweeps.started_at                                                       AS run_started_at,
       sweeps.machine ->> 'hostname'                                           AS hostname,
       coalesce(CAST(sweep_trials.warming ->> 'warm_after_seconds' AS DOUBLE PRECISION),
                CAST(sweep_trials.warming -> 'brought' ->> 'resident_after_seconds' AS DOUBLE PRECISION))
           / nullif(CAST(sweep_trials.warming ->> 'bound_seconds' AS DOUBLE PRECISION), 0) AS bound_ratio,
       steady.tps                                                              AS steady_tps,
       (SELECT min(step.seconds) FROM sweep_climbs AS step
        WHERE step.sweep_id = sweep_trials.sweep_id AND step.number = sweep_trials.number
          AND step.repeat = sweep_trials.repeat AND step.tps >= 0.50 * steady.tps) AS to_50_seconds,
       (SELECT min(step.seconds) FROM sweep_climbs AS step
        WHERE step.sweep_id = sweep_trials.sweep_id AND step.number = sweep_trials.number
          AND step.repeat = sweep_trials.repeat AND step.tps >= 0.90 * steady.tps) AS to_90_seconds,
       (SELECT min(step.seconds) FROM sweep_climbs AS step
        WHERE step.sweep_id = sweep_trials.sweep_id AND step.number = sweep_trials.number
          AND step.repeat = sweep_trials.repeat AND step.tps >= 0.95 * steady.tps) AS to_95_seconds,
       CAST(sweep_trials.strategy_outcome ->> 'ended_after_seconds' AS DOUBLE PRECISION) AS ended_after_seconds,
       CAST(sweep_trials.strategy_outcome ->> 'issued_bytes' AS BIGINT)        AS issued_bytes,
       sweep_trials.strategy_outcome ->> 'failure'                             AS strategy_failure,
       CAST(sweep_trials.warming ->> 'wanted_bytes' AS BIGINT)                 AS wanted_bytes,
       CAST(sweep_trials.warming -> 'brought' ->> 'resident_after_seconds' AS DOUBLE PRECISION) AS resident_after_seconds,
       CAST(sweep_trials.warming -> 'brought' ->> 'buffers_after_seconds' AS DOUBLE PRECISION)  AS buffers_after_seconds,
       CAST(sweep_trials.warming -> 'brought' ->> 'cpu_seconds' AS DOUBLE PRECISION)            AS cpu_seconds,
       CAST(sweep_trials.warming -> 'brought' ->> 'device_reads' AS BIGINT)    AS device_reads,
       CAST(CAST(sweep_outlines.background ->> 'checkpoints_timed' AS DOUBLE PRECISION) AS BIGINT) AS checkpoints_timed,
       CAST(CAST(sweep_outlines.background ->> 'checkpoints_requested' AS DOUBLE PRECISION) AS BIGINT) AS checkpoints_requested,
       CAST(CAST(sweep_outlines.background ->> 'buffers_checkpoint' AS DOUBLE PRECISION) AS BIGINT) AS buffers_checkpoint,
       CAST(CAST(sweep_outlines.background ->> 'buffers_clean' AS DOUBLE PRECISION) AS BIGINT) AS buffers_clean,
       CAST(CAST(sweep_outlines.background ->> 'buffers_backend' AS DOUBLE PRECISION) AS BIGINT) AS buffers_backend,
       CAST(CAST(sweep_outlines.background ->> 'maxwritten_clean' AS DOUBLE PRECISION) AS BIGINT) AS maxwritten_clean,
       CAST(CAST(sweep_outlines.background ->> 'buffers_alloc' AS DOUBLE PRECISION) AS BIGINT) AS buffers_alloc,
       CAST(sweep_outlines.figures ->> 'device_reads_per_second' AS DOUBLE PRECISION) AS device_reads_per_second,
       CAST(sweep_outlines.figures ->> 'device_reads_per_second_max' AS DOUBLE PRECISION) AS device_reads_per_second_max,
       CAST(sweep_outlines.figures ->> 'device_bytes_per_write' AS DOUBLE PRECISION) AS device_bytes_per_write,
       CAST(sweep_outlines.figures ->> 'server_cpu_us_per_transaction' AS DOUBLE PRECISION) AS server_cpu_us_per_transaction,
       sweep_trials.ended_at,
       sweep_trials.query_mode, sweep_trials.memory_bytes, sweep_trials.places,
       CAST(sweep_trials.warming -> 'job' ->> 'load_seconds' AS DOUBLE PRECISION)  AS load_seconds,
       CAST(sweep_trials.warming -> 'job' ->> 'whole_seconds' AS DOUBLE PRECISION) AS whole_seconds
FROM sweep_trial_points AS sweep_trials
JOIN sweeps ON sweeps.id = sweep_trials.sweep_id
LEFT JOIN steady ON steady.sweep_id = sweep_trials.sweep_id
LEFT JOIN sweep_outlines ON sweep_outlines.sweep_id = sweep_trials.sweep_id
                        AND sweep_outlines.number = sweep_trials.number
                        AND sweep_outlines.repeat = sweep_trials.repeat;

-- The points of sweeps, over the trials with figures. Medians of an even number lie between the two in the middle.
CREATE VIEW sweep_points AS
WITH ranked AS (
    SELECT sweep_id,
           number,
           tps,
           worst_second_tps,
           row_number() OVER (PARTITION BY sweep_id, number ORDER BY tps) AS place,
           count(*) OVER (PARTITION BY sweep_id, number)                  AS trials
    FROM sweep_trials
    WHERE failure IS NULL
),
figures AS (
    SELECT sweep_id,
           number,
           max(trials)                                                                            AS trials,
           CAST(avg(CASE WHEN place * 2 BETWEEN trials AND trials + 2 THEN tps END) AS DOUBLE PRECISION) AS tps_median,
           min(tps)                                                                               AS tps_min,
           max(tps)                                                                               AS tps_max,
           min(worst_second_tps)                                                                  AS worst_second_tps
    FROM ranked
    GROUP BY sweep_id, number
)
SELECT figures.sweep_id,
       figures.number,
       scale, clients, jobs, script, rate, latency_limit_ms, start_asked, strategy, disk,
       point_file_system AS file_system, server, database, side, variables, point_settings,
       figures.trials,
       figures.tps_median,
       figures.tps_min,
       figures.tps_max,
       figures.worst_second_tps,
       query_mode, memory_bytes, places,
       CAST(point ->> 'seconds' AS INTEGER)                   AS seconds,
       CAST(point ->> 'transactions' AS INTEGER)              AS transactions,
       CAST(point ->> 'total_transactions' AS INTEGER)        AS total_transactions,
       CASE WHEN CAST(point ->> 'connect' AS TEXT) IN ('1', 'true') THEN 1 ELSE 0 END AS connect
FROM figures
JOIN sweep_trial_points AS sweep_trials ON sweep_trials.sweep_id = figures.sweep_id
                 AND sweep_trials.number = figures.number
                 AND sweep_trials.repeat = (
                     SELECT min(repeat)
                     FROM sweep_trials AS first_trial
                     WHERE first_trial.sweep_id = figures.sweep_id AND first_trial.number = figures.number
                 );

-- Every second of the trials of sweeps, beside its point, with what the machine did in it where that was gauged.
CREATE VIEW sweep_seconds AS
SELECT sweep_samples.sweep_id,
       sweep_samples.number,
       sweep_samples.repeat,
       scale, clients, script, latency_limit_ms, start_asked, strategy, point_file_system AS file_system, server, database,
       sweep_samples.second, sweep_samples.wall_ms, sweep_samples.transactions,
       sweep_samples.latency_us_mean, sweep_samples.latency_us_min, sweep_samples.latency_us_max,
       sweep_samples.foreground_read_bytes, sweep_samples.device_read_bytes, sweep_samples.device_reads,
       sweep_samples.os_resident_bytes,
       CAST(measures ->> 'generator_cpu_seconds' AS DOUBLE PRECISION) AS generator_cpu_seconds,
       CAST(measures ->> 'busiest_thread_cpu_seconds' AS DOUBLE PRECISION) AS busiest_thread_cpu_seconds,
       CAST(measures ->> 'server_cpu_seconds' AS DOUBLE PRECISION) AS server_cpu_seconds,
       CAST(measures ->> 'server_run_delay_seconds' AS DOUBLE PRECISION) AS server_run_delay_seconds,
       CAST(measures ->> 'processors_busy_seconds' AS DOUBLE PRECISION) AS processors_busy_seconds,
       CAST(measures ->> 'device_writes' AS BIGINT) AS device_writes,
       CAST(measures ->> 'device_written_bytes' AS BIGINT) AS device_written_bytes,
       CAST(measures ->> 'device_queue' AS DOUBLE PRECISION) AS device_queue,
       CAST(measures ->> 'dirty_bytes' AS BIGINT) AS dirty_bytes,
       CAST(measures ->> 'writeback_bytes' AS BIGINT) AS writeback_bytes,
       CAST(measures ->> 'pressure_io_some' AS DOUBLE PRECISION) AS pressure_io_some,
       sweep_samples.latency_us_deviation
FROM sweep_samples
JOIN sweep_trial_points AS sweep_trials ON sweep_trials.sweep_id = sweep_samples.sweep_id
                 AND sweep_trials.number = sweep_samples.number
                 AND sweep_trials.repeat = sweep_samples.repeat
LEFT JOIN sweep_os_samples ON sweep_os_samples.sweep_id = sweep_samples.sweep_id
                          AND sweep_os_samples.number = sweep_samples.number
                          AND sweep_os_samples.repeat = sweep_samples.repeat
                          AND sweep_os_samples.second = sweep_samples.second;

-- Every measure of every second.
CREATE VIEW sweep_measures AS
SELECT sweep_id,
       number,
       repeat,
       second,
       measure.key                                                 AS measure,
       CAST(CAST(measure.value AS TEXT) AS DOUBLE PRECISION)       AS value
FROM sweep_os_samples, json_each(sweep_os_samples.measures) AS measure;

-- What the model says of the curves of studies of ways to warm.
CREATE VIEW trial_verdicts AS
SELECT sweep_trials.sweep_id                                                                       AS run_id,
       sweep_trials.point ->> 'strategy'                                                            AS strategy,
       sweep_trials.repeat,
       warming -> 'judgement' ->> 'verdict'                                                        AS verdict,
       CAST(warming -> 'judgement' ->> 'steady_from_seconds' AS DOUBLE PRECISION)                  AS steady_from_seconds,
       CAST(warming -> 'judgement' ->> 'steady_tps' AS DOUBLE PRECISION)                           AS steady_tps,
       CAST(warming -> 'judgement' -> 'fit' -> 'cold_seconds' ->> 'value' AS DOUBLE PRECISION)     AS fit_cold_seconds,
       CAST(warming -> 'judgement' -> 'fit' -> 'hit_seconds' ->> 'value' AS DOUBLE PRECISION)      AS fit_hit_seconds,
       CAST(warming -> 'judgement' -> 'fit' -> 'pages' ->> 'value' AS DOUBLE PRECISION)            AS fit_pages,
       CAST(warming -> 'judgement' -> 'fit' ->> 'residual_share' AS DOUBLE PRECISION)              AS fit_residual_share,
       warming -> 'judgement' ->> 'no_fit'                                                         AS no_fit,
       warming ->> 'no_verdict'                                                                    AS no_verdict
FROM sweep_trials
JOIN sweeps ON sweeps.id = sweep_trials.sweep_id
WHERE CAST(sweeps.study ->> 'is_warmup' AS TEXT) IN ('1', 'true');
