-- How a trial that began cold got warm. NULL of others, and of those that are older.
ALTER TABLE sweep_trials ADD COLUMN warming JSON;
ALTER TABLE sweep_outlines ADD COLUMN warming JSON;

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
       sweep_trials.failure,
       CAST(sweep_trials.warming ->> 'warm_after_seconds' AS DOUBLE PRECISION) AS warm_after_seconds,
       CAST(sweep_trials.warming ->> 'bound_seconds' AS DOUBLE PRECISION)      AS bound_seconds,
       CAST(sweep_trials.warming ->> 'served_until_warm' AS BIGINT)            AS served_until_warm,
       CAST(sweep_trials.warming ->> 'warm_tps' AS DOUBLE PRECISION)           AS warm_tps
FROM sweep_trials
JOIN sweeps ON sweeps.id = sweep_trials.sweep_id
LEFT JOIN sweep_outlines ON sweep_outlines.sweep_id = sweep_trials.sweep_id
                        AND sweep_outlines.number = sweep_trials.number
                        AND sweep_outlines.repeat = sweep_trials.repeat;
