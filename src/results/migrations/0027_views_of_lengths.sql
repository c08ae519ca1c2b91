-- The views tell how long a point's trials last, what making its databases took, and how the latencies of a second scatter.
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
       figures.worst_second_tps,
       coalesce(point ->> 'query_mode', 'prepared')           AS query_mode,
       CAST(point ->> 'memory' AS BIGINT)                     AS memory_bytes,
       CAST(point ->> 'seconds' AS INTEGER)                   AS seconds,
       CAST(point ->> 'transactions' AS INTEGER)              AS transactions,
       CAST(point ->> 'total_transactions' AS INTEGER)        AS total_transactions,
       CASE WHEN CAST(point ->> 'connect' AS TEXT) IN ('1', 'true') THEN 1 ELSE 0 END AS connect
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
       sweep_os_samples.pressure_io_some,
       sweep_samples.latency_us_deviation
FROM sweep_samples
JOIN sweep_trials ON sweep_trials.sweep_id = sweep_samples.sweep_id
                 AND sweep_trials.number = sweep_samples.number
                 AND sweep_trials.repeat = sweep_samples.repeat
LEFT JOIN sweep_os_samples ON sweep_os_samples.sweep_id = sweep_samples.sweep_id
                          AND sweep_os_samples.number = sweep_samples.number
                          AND sweep_os_samples.repeat = sweep_samples.repeat
                          AND sweep_os_samples.second = sweep_samples.second;

DROP VIEW all_runs;
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
