-- The views tell every axis of a point, and of a trial also what was late, tried again, within whole cycles of checkpoints and
-- written. A point that is older than an axis has its default.
DROP VIEW sweep_summary;
CREATE VIEW sweep_summary AS
SELECT sweep_trials.sweep_id,
       sweeps.question,
       sweep_trials.number,
       sweep_trials.repeat,
       sweep_trials.position,
       sweep_trials.started_at,
       CAST(sweep_trials.point ->> 'scale' AS INTEGER)                     AS scale,
       CAST(sweep_trials.point ->> 'clients' AS INTEGER)                   AS clients,
       CAST(sweep_trials.point ->> 'jobs' AS INTEGER)                      AS jobs,
       sweep_trials.point ->> 'script'                                     AS script,
       CAST(sweep_trials.point ->> 'rate' AS DOUBLE PRECISION)             AS rate,
       CAST(sweep_trials.point ->> 'latency_limit_ms' AS DOUBLE PRECISION) AS latency_limit_ms,
       sweep_trials.point ->> 'start'                                      AS start_asked,
       sweep_trials.start_verdict,
       coalesce(sweep_trials.point ->> 'strategy', 'nothing')              AS strategy,
       sweep_trials.point ->> 'disk'                                       AS disk,
       coalesce(sweep_trials.point ->> 'file_system', 'native')            AS file_system,
       coalesce(sweep_trials.point ->> 'server', 'default')                AS server,
       coalesce(sweep_trials.point ->> 'database', 'default')              AS database,
       sweep_trials.server_version,
       sweep_trials.point ->> 'side'                                       AS side,
       sweep_trials.point -> 'variables'                                   AS variables,
       sweep_trials.point -> 'settings'                                    AS point_settings,
       sweep_trials.lasted_seconds,
       sweep_trials.tps,
       sweep_trials.worst_second_tps,
       sweep_trials.checkpoint_cycles,
       sweep_trials.cycle_tps,
       sweep_trials.latency_us_p50,
       sweep_trials.latency_us_p95,
       sweep_trials.latency_us_p99,
       sweep_trials.latency_us_p999,
       sweep_trials.transactions,
       sweep_trials.failed,
       sweep_trials.skipped,
       sweep_trials.late,
       sweep_trials.retried,
       sweep_trials.retries,
       sweep_trials.device_read_bytes,
       sweep_outlines.device_writes_per_second,
       sweep_outlines.device_written_bytes,
       sweep_trials.failure
FROM sweep_trials
JOIN sweeps ON sweeps.id = sweep_trials.sweep_id
LEFT JOIN sweep_outlines ON sweep_outlines.sweep_id = sweep_trials.sweep_id
                        AND sweep_outlines.number = sweep_trials.number
                        AND sweep_outlines.repeat = sweep_trials.repeat;

DROP VIEW sweep_points;
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
       CAST(point ->> 'scale' AS INTEGER)                     AS scale,
       CAST(point ->> 'clients' AS INTEGER)                   AS clients,
       CAST(point ->> 'jobs' AS INTEGER)                      AS jobs,
       point ->> 'script'                                     AS script,
       CAST(point ->> 'rate' AS DOUBLE PRECISION)             AS rate,
       CAST(point ->> 'latency_limit_ms' AS DOUBLE PRECISION) AS latency_limit_ms,
       point ->> 'start'                                      AS start_asked,
       coalesce(point ->> 'strategy', 'nothing')              AS strategy,
       point ->> 'disk'                                       AS disk,
       coalesce(point ->> 'file_system', 'native')            AS file_system,
       coalesce(point ->> 'server', 'default')                AS server,
       coalesce(point ->> 'database', 'default')              AS database,
       point ->> 'side'                                       AS side,
       point -> 'variables'                                   AS variables,
       point -> 'settings'                                    AS point_settings,
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

DROP VIEW sweep_seconds;
CREATE VIEW sweep_seconds AS
SELECT sweep_samples.sweep_id,
       sweep_samples.number,
       sweep_samples.repeat,
       CAST(point ->> 'scale' AS INTEGER)                     AS scale,
       CAST(point ->> 'clients' AS INTEGER)                   AS clients,
       point ->> 'script'                                     AS script,
       CAST(point ->> 'latency_limit_ms' AS DOUBLE PRECISION) AS latency_limit_ms,
       point ->> 'start'                                      AS start_asked,
       coalesce(point ->> 'strategy', 'nothing')              AS strategy,
       coalesce(point ->> 'file_system', 'native')            AS file_system,
       coalesce(point ->> 'server', 'default')                AS server,
       coalesce(point ->> 'database', 'default')              AS database,
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
