-- Percentiles of latency with too few transactions beyond them are NULL, as are those of trials that an older pgthaw kept.
ALTER TABLE sweep_trials ADD COLUMN latency_us_p95 BIGINT;
ALTER TABLE sweep_trials ADD COLUMN latency_us_p999 BIGINT;

-- What was imported, and not measured by pgthaw: from where.
ALTER TABLE sweeps ADD COLUMN source TEXT;

-- Every run and every sweep.
CREATE VIEW all_runs AS
SELECT id,
       'warmup'                                     AS kind,
       study ->> 'title'                            AS question,
       started_at,
       ended_at,
       machine ->> 'hostname'                       AS hostname,
       machine ->> 'kernel'                         AS kernel,
       CAST(machine ->> 'cores' AS INTEGER)         AS cores,
       CAST(machine ->> 'memory_bytes' AS BIGINT)   AS memory_bytes,
       server ->> 'version'                         AS server_version,
       pgthaw_version,
       NULL                                         AS source,
       (SELECT count(*) FROM trials WHERE trials.run_id = runs.id) AS trials
FROM runs
UNION ALL
SELECT id,
       'sweep',
       question,
       started_at,
       ended_at,
       machine ->> 'hostname',
       machine ->> 'kernel',
       CAST(machine ->> 'cores' AS INTEGER),
       CAST(machine ->> 'memory_bytes' AS BIGINT),
       server ->> 'version',
       pgthaw_version,
       source,
       (SELECT count(*) FROM sweep_trials WHERE sweep_trials.sweep_id = sweeps.id)
FROM sweeps
UNION ALL
SELECT id,
       'residency',
       NULL,
       started_at,
       ended_at,
       machine ->> 'hostname',
       machine ->> 'kernel',
       CAST(machine ->> 'cores' AS INTEGER),
       CAST(machine ->> 'memory_bytes' AS BIGINT),
       server ->> 'version',
       pgthaw_version,
       NULL,
       (SELECT count(*) FROM loading_trials WHERE loading_trials.run_id = loading_runs.id)
FROM loading_runs;

-- A trial beside what it was a trial of: as before, with what studies of equal sides and rarer percentiles need.
DROP VIEW sweep_summary;
CREATE VIEW sweep_summary AS
SELECT sweep_trials.sweep_id,
       sweeps.question,
       sweep_trials.number,
       sweep_trials.repeat,
       sweep_trials.position,
       sweep_trials.started_at,
       CAST(point ->> 'scale' AS INTEGER)          AS scale,
       CAST(point ->> 'clients' AS INTEGER)        AS clients,
       CAST(point ->> 'jobs' AS INTEGER)           AS jobs,
       point ->> 'script'                          AS script,
       CAST(point ->> 'rate' AS DOUBLE PRECISION)  AS rate,
       point ->> 'start'                           AS start_asked,
       start_verdict,
       point ->> 'disk'                            AS disk,
       point ->> 'side'                            AS side,
       point -> 'variables'                        AS variables,
       point -> 'settings'                         AS point_settings,
       lasted_seconds,
       tps,
       worst_second_tps,
       latency_us_p50,
       latency_us_p95,
       latency_us_p99,
       latency_us_p999,
       transactions,
       failed,
       skipped,
       device_read_bytes,
       failure
FROM sweep_trials
JOIN sweeps ON sweeps.id = sweep_trials.sweep_id;

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
       CAST(point ->> 'scale' AS INTEGER)          AS scale,
       CAST(point ->> 'clients' AS INTEGER)        AS clients,
       CAST(point ->> 'jobs' AS INTEGER)           AS jobs,
       point ->> 'script'                          AS script,
       CAST(point ->> 'rate' AS DOUBLE PRECISION)  AS rate,
       point ->> 'start'                           AS start_asked,
       point ->> 'disk'                            AS disk,
       point ->> 'side'                            AS side,
       point -> 'variables'                        AS variables,
       point -> 'settings'                         AS point_settings,
       figures.trials,
       figures.tps_median,
       figures.tps_min,
       figures.tps_max,
       figures.worst_second_tps
FROM figures
JOIN sweep_trials ON sweep_trials.sweep_id = figures.sweep_id
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
       CAST(point ->> 'scale' AS INTEGER)    AS scale,
       CAST(point ->> 'clients' AS INTEGER)  AS clients,
       point ->> 'script'                    AS script,
       point ->> 'start'                     AS start_asked,
       sweep_samples.second,
       sweep_samples.wall_ms,
       sweep_samples.transactions,
       sweep_samples.latency_us_mean,
       sweep_samples.latency_us_min,
       sweep_samples.latency_us_max,
       sweep_samples.foreground_read_bytes,
       sweep_samples.device_read_bytes,
       sweep_samples.device_reads,
       sweep_samples.os_resident_bytes,
       sweep_os_samples.generator_cpu_seconds,
       sweep_os_samples.busiest_thread_cpu_seconds,
       sweep_os_samples.server_cpu_seconds,
       sweep_os_samples.server_run_delay_seconds,
       sweep_os_samples.processors_busy_seconds,
       sweep_os_samples.device_writes,
       sweep_os_samples.device_written_bytes,
       sweep_os_samples.device_queue,
       sweep_os_samples.dirty_bytes,
       sweep_os_samples.writeback_bytes,
       sweep_os_samples.pressure_io_some
FROM sweep_samples
JOIN sweep_trials ON sweep_trials.sweep_id = sweep_samples.sweep_id
                 AND sweep_trials.number = sweep_samples.number
                 AND sweep_trials.repeat = sweep_samples.repeat
LEFT JOIN sweep_os_samples ON sweep_os_samples.sweep_id = sweep_samples.sweep_id
                          AND sweep_os_samples.number = sweep_samples.number
                          AND sweep_os_samples.repeat = sweep_samples.repeat
                          AND sweep_os_samples.second = sweep_samples.second;
