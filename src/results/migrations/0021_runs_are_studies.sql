-- Runs of `bench warmup` and `bench residency` that older versions kept in tables of their own are studies: what these tables held
-- was moved. The first statement that they are in waits for programs that write to them, so that nothing is dropped that came
-- meanwhile.
DROP VIEW all_runs;
DROP VIEW trial_summary;
DROP VIEW trial_verdicts;
DROP VIEW served_by_second;
DROP VIEW loading_summary;
ALTER TABLE runs RENAME TO moved_runs;
ALTER TABLE loading_runs RENAME TO moved_loading_runs;
CREATE TABLE left_over (id TEXT CHECK (id IS NULL));
INSERT INTO left_over SELECT id FROM moved_runs UNION ALL SELECT id FROM moved_loading_runs;
DROP TABLE left_over;
DROP TABLE samples;
DROP TABLE trials;
DROP TABLE moved_runs;
DROP TABLE loading_trials;
DROP TABLE moved_loading_runs;

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
       (SELECT count(*) FROM sweep_trials WHERE sweep_trials.sweep_id = sweeps.id) AS trials
FROM sweeps;

-- A trial beside what it was a trial of. The steady throughput of a study of ways to warm is the median of what its trials served
-- once they were warm, or what an older version told; shares of it are reached at the first step of the climb that is so high,
-- and a trial has no more steps than seconds.
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
       CAST(sweep_trials.warming -> 'brought' ->> 'device_reads' AS BIGINT)    AS device_reads
FROM sweep_trials
JOIN sweeps ON sweeps.id = sweep_trials.sweep_id
LEFT JOIN steady ON steady.sweep_id = sweep_trials.sweep_id
LEFT JOIN sweep_outlines ON sweep_outlines.sweep_id = sweep_trials.sweep_id
                        AND sweep_outlines.number = sweep_trials.number
                        AND sweep_outlines.repeat = sweep_trials.repeat;

-- The trials of studies of ways to warm.
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

-- What the model says of their curves.
CREATE VIEW trial_verdicts AS
SELECT sweep_trials.sweep_id                                                                       AS run_id,
       sweep_trials.point ->> 'strategy'                                                           AS strategy,
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

-- What had been served by the end of each second, and read from the device.
CREATE VIEW served_by_second AS
SELECT sweep_samples.sweep_id            AS run_id,
       sweep_trials.point ->> 'strategy' AS strategy,
       sweep_samples.repeat,
       sweep_samples.second,
       sweep_samples.transactions,
       SUM(sweep_samples.transactions) OVER trial_so_far      AS served,
       SUM(sweep_samples.device_read_bytes) OVER trial_so_far AS device_read_bytes_so_far
FROM sweep_samples
JOIN sweep_trials ON sweep_trials.sweep_id = sweep_samples.sweep_id
                 AND sweep_trials.number = sweep_samples.number
                 AND sweep_trials.repeat = sweep_samples.repeat
JOIN sweeps ON sweeps.id = sweep_trials.sweep_id
WHERE CAST(sweeps.study ->> 'is_warmup' AS TEXT) IN ('1', 'true')
WINDOW trial_so_far AS (
    PARTITION BY sweep_samples.sweep_id, sweep_samples.number, sweep_samples.repeat ORDER BY sweep_samples.second
);

-- The trials of studies until what is wanted is resident.
CREATE VIEW loading_summary AS
SELECT sweep_trials.sweep_id                                                             AS run_id,
       sweeps.started_at                                                                 AS run_started_at,
       sweeps.machine ->> 'hostname'                                                     AS hostname,
       CAST(point ->> 'scale' AS INTEGER)                                                AS scale,
       CASE WHEN study ->> 'wanted_seconds' IS NOT NULL THEN point ->> 'script' END      AS script,
       point ->> 'disk'                                                                  AS disk,
       CAST(warming ->> 'wanted_bytes' AS BIGINT)                                        AS wanted_bytes,
       CAST(warming -> 'brought' -> 'bound' ->> 'seconds' AS DOUBLE PRECISION)           AS bound_seconds,
       point ->> 'strategy'                                                              AS loader,
       sweep_trials.repeat                                                               AS round,
       start_verdict,
       CAST(warming -> 'brought' ->> 'resident_after_seconds' AS DOUBLE PRECISION)       AS resident_after_seconds,
       CAST(warming -> 'brought' ->> 'resident_after_seconds' AS DOUBLE PRECISION)
           / nullif(CAST(warming -> 'brought' -> 'bound' ->> 'seconds' AS DOUBLE PRECISION), 0) AS bound_ratio,
       CAST(warming -> 'brought' ->> 'buffers_after_seconds' AS DOUBLE PRECISION)        AS buffers_after_seconds,
       CAST(warming -> 'brought' ->> 'cpu_seconds' AS DOUBLE PRECISION)                  AS cpu_seconds,
       device_read_bytes,
       CAST(warming -> 'brought' ->> 'device_reads' AS BIGINT)                           AS device_reads,
       coalesce(failure, strategy_outcome ->> 'failure')                                 AS failure
FROM sweep_trials
JOIN sweeps ON sweeps.id = sweep_trials.sweep_id
WHERE sweeps.study ->> 'until' = 'resident';
