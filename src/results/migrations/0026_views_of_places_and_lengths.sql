-- The views tell where the parts of a server lay, how long a point's trials and jobs last, what making its databases took, and how the
-- latencies of a second scatter.
DROP VIEW trial_summary;
DROP VIEW sweep_summary;
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
           CASE
               WHEN warmup -> 'told' IS NOT NULL THEN CAST(warmup -> 'told' ->> 'steady_tps' AS DOUBLE PRECISION)
               ELSE coalesce(levels.tps, CAST(warmup ->> 'calibration_tps' AS DOUBLE PRECISION))
           END AS tps
    FROM sweeps
    LEFT JOIN levels ON levels.sweep_id = sweeps.id
    WHERE CAST(sweeps.study ->> 'is_warmup' AS TEXT) IN ('1', 'true')
)
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
       CASE WHEN sweep_trials.warming -> 'brought' IS NULL THEN sweep_trials.tps END AS tps,
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
       (SELECT min(CAST(sweep_outlines.warming -> 'climb' -> (second - 1) ->> 'seconds' AS DOUBLE PRECISION))
        FROM sweep_samples
        WHERE sweep_samples.sweep_id = sweep_trials.sweep_id
          AND sweep_samples.number = sweep_trials.number
          AND sweep_samples.repeat = sweep_trials.repeat
          AND CAST(sweep_outlines.warming -> 'climb' -> (second - 1) ->> 'tps' AS DOUBLE PRECISION)
              >= 0.50 * steady.tps)                                       AS to_50_seconds,
       (SELECT min(CAST(sweep_outlines.warming -> 'climb' -> (second - 1) ->> 'seconds' AS DOUBLE PRECISION))
        FROM sweep_samples
        WHERE sweep_samples.sweep_id = sweep_trials.sweep_id
          AND sweep_samples.number = sweep_trials.number
          AND sweep_samples.repeat = sweep_trials.repeat
          AND CAST(sweep_outlines.warming -> 'climb' -> (second - 1) ->> 'tps' AS DOUBLE PRECISION)
              >= 0.90 * steady.tps)                                       AS to_90_seconds,
       (SELECT min(CAST(sweep_outlines.warming -> 'climb' -> (second - 1) ->> 'seconds' AS DOUBLE PRECISION))
        FROM sweep_samples
        WHERE sweep_samples.sweep_id = sweep_trials.sweep_id
          AND sweep_samples.number = sweep_trials.number
          AND sweep_samples.repeat = sweep_trials.repeat
          AND CAST(sweep_outlines.warming -> 'climb' -> (second - 1) ->> 'tps' AS DOUBLE PRECISION)
              >= 0.95 * steady.tps)                                       AS to_95_seconds,
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
       sweep_outlines.device_reads_per_second,
       sweep_outlines.device_reads_per_second_max,
       sweep_outlines.device_bytes_per_write,
       sweep_outlines.server_cpu_us_per_transaction,
       sweep_trials.ended_at,
       coalesce(sweep_trials.point ->> 'query_mode', 'prepared')               AS query_mode,
       CAST(sweep_trials.point ->> 'memory' AS BIGINT)                         AS memory_bytes,
       coalesce(sweep_trials.point ->> 'places', 'together')                   AS places,
       CAST(sweep_trials.warming -> 'job' ->> 'load_seconds' AS DOUBLE PRECISION)  AS load_seconds,
       CAST(sweep_trials.warming -> 'job' ->> 'whole_seconds' AS DOUBLE PRECISION) AS whole_seconds
FROM sweep_trials
JOIN sweeps ON sweeps.id = sweep_trials.sweep_id
LEFT JOIN steady ON steady.sweep_id = sweep_trials.sweep_id
LEFT JOIN sweep_outlines ON sweep_outlines.sweep_id = sweep_trials.sweep_id
                        AND sweep_outlines.number = sweep_trials.number
                        AND sweep_outlines.repeat = sweep_trials.repeat;

CREATE VIEW trial_summary AS
SELECT sweep_id                        AS run_id,
       run_started_at,
       hostname,
       sweeps.server ->> 'version'     AS server_version,
       scale,
       clients,
       script,
       disk,
       bound_seconds,
       steady_tps,
       strategy,
       repeat,
       position,
       start_verdict,
       warm_after_seconds,
       bound_ratio,
       to_50_seconds,
       to_90_seconds,
       to_95_seconds,
       served_until_warm,
       transactions                    AS served,
       ended_after_seconds,
       issued_bytes,
       device_read_bytes,
       coalesce(failure, strategy_failure) AS failure
FROM sweep_summary
JOIN sweeps ON sweeps.id = sweep_summary.sweep_id
WHERE CAST(sweeps.study ->> 'is_warmup' AS TEXT) IN ('1', 'true');

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
       coalesce(point ->> 'places', 'together')               AS places,
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
