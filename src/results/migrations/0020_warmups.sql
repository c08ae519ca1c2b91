-- What was found of a study of ways to warm before its trials. NULL of other studies.
ALTER TABLE sweeps ADD COLUMN warmup JSON;

DROP VIEW all_runs;
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
       CASE WHEN warmup IS NULL THEN 'sweep' ELSE 'warmup' END,
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

-- The trials of studies of ways to warm, of older ones as they were kept. Times to shares of the steady throughput of the others
-- follow from all of a study's trials: `pgthaw results show --json` computes them.
DROP VIEW trial_summary;
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
JOIN runs ON runs.id = trials.run_id
UNION ALL
SELECT sweep_trials.sweep_id,
       sweeps.started_at,
       sweeps.machine ->> 'hostname',
       sweeps.server ->> 'version',
       CAST(sweep_trials.point ->> 'scale' AS INTEGER),
       CAST(sweep_trials.point ->> 'clients' AS INTEGER),
       sweep_trials.point ->> 'script',
       sweeps.warmup -> 'disk' ->> 'name',
       CAST(sweep_trials.warming ->> 'bound_seconds' AS DOUBLE PRECISION),
       CAST(NULL AS DOUBLE PRECISION),
       sweep_trials.point ->> 'strategy',
       sweep_trials.repeat,
       sweep_trials.position,
       sweep_trials.start_verdict,
       CAST(sweep_trials.warming ->> 'warm_after_seconds' AS DOUBLE PRECISION),
       CAST(sweep_trials.warming ->> 'warm_after_seconds' AS DOUBLE PRECISION)
           / CAST(sweep_trials.warming ->> 'bound_seconds' AS DOUBLE PRECISION),
       CAST(NULL AS DOUBLE PRECISION),
       CAST(NULL AS DOUBLE PRECISION),
       CAST(NULL AS DOUBLE PRECISION),
       CAST(sweep_trials.warming ->> 'served_until_warm' AS BIGINT),
       sweep_trials.transactions,
       CAST(sweep_trials.strategy_outcome ->> 'ended_after_seconds' AS DOUBLE PRECISION),
       CAST(sweep_trials.strategy_outcome ->> 'issued_bytes' AS BIGINT),
       sweep_trials.device_read_bytes,
       coalesce(sweep_trials.failure, sweep_trials.strategy_outcome ->> 'failure')
FROM sweep_trials
JOIN sweeps ON sweeps.id = sweep_trials.sweep_id
WHERE sweeps.warmup IS NOT NULL;

-- What the model says of their curves.
DROP VIEW trial_verdicts;
CREATE VIEW trial_verdicts AS
SELECT run_id,
       strategy,
       repeat,
       judgement ->> 'verdict'                                                          AS verdict,
       CAST(judgement ->> 'steady_from_seconds' AS DOUBLE PRECISION)                    AS steady_from_seconds,
       CAST(judgement ->> 'steady_tps' AS DOUBLE PRECISION)                             AS steady_tps,
       CAST(judgement -> 'fit' -> 'cold_seconds' ->> 'value' AS DOUBLE PRECISION)       AS fit_cold_seconds,
       CAST(judgement -> 'fit' -> 'hit_seconds' ->> 'value' AS DOUBLE PRECISION)        AS fit_hit_seconds,
       CAST(judgement -> 'fit' -> 'pages' ->> 'value' AS DOUBLE PRECISION)              AS fit_pages,
       CAST(judgement -> 'fit' ->> 'residual_share' AS DOUBLE PRECISION)                AS fit_residual_share,
       judgement ->> 'no_fit'                                                           AS no_fit,
       no_verdict
FROM trials
UNION ALL
SELECT sweep_trials.sweep_id,
       sweep_trials.point ->> 'strategy',
       sweep_trials.repeat,
       warming -> 'judgement' ->> 'verdict',
       CAST(warming -> 'judgement' ->> 'steady_from_seconds' AS DOUBLE PRECISION),
       CAST(warming -> 'judgement' ->> 'steady_tps' AS DOUBLE PRECISION),
       CAST(warming -> 'judgement' -> 'fit' -> 'cold_seconds' ->> 'value' AS DOUBLE PRECISION),
       CAST(warming -> 'judgement' -> 'fit' -> 'hit_seconds' ->> 'value' AS DOUBLE PRECISION),
       CAST(warming -> 'judgement' -> 'fit' -> 'pages' ->> 'value' AS DOUBLE PRECISION),
       CAST(warming -> 'judgement' -> 'fit' ->> 'residual_share' AS DOUBLE PRECISION),
       warming -> 'judgement' ->> 'no_fit',
       warming ->> 'no_verdict'
FROM sweep_trials
JOIN sweeps ON sweeps.id = sweep_trials.sweep_id
WHERE sweeps.warmup IS NOT NULL;

-- What had been served by the end of each second, and read from the device.
DROP VIEW served_by_second;
CREATE VIEW served_by_second AS
WITH seconds AS (
    SELECT run_id, strategy, repeat, second, transactions, device_read_bytes
    FROM samples
    UNION ALL
    SELECT sweep_trials.sweep_id,
           sweep_trials.point ->> 'strategy',
           sweep_trials.repeat,
           sweep_samples.second,
           sweep_samples.transactions,
           sweep_samples.device_read_bytes
    FROM sweep_samples
    JOIN sweep_trials ON sweep_trials.sweep_id = sweep_samples.sweep_id
                     AND sweep_trials.number = sweep_samples.number
                     AND sweep_trials.repeat = sweep_samples.repeat
    JOIN sweeps ON sweeps.id = sweep_trials.sweep_id
    WHERE sweeps.warmup IS NOT NULL
)
SELECT run_id,
       strategy,
       repeat,
       second,
       transactions,
       SUM(transactions) OVER trial_so_far      AS served,
       SUM(device_read_bytes) OVER trial_so_far AS device_read_bytes_so_far
FROM seconds
WINDOW trial_so_far AS (PARTITION BY run_id, strategy, repeat ORDER BY second);
