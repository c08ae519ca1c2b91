-- What the model says of a trial's curve: verdict, fit and their figures as a JSON document, or why there are none. Both
-- are NULL in trials that were kept before.
ALTER TABLE trials ADD COLUMN judgement JSON;
ALTER TABLE trials ADD COLUMN no_verdict TEXT;

-- The same flat.
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
FROM trials;
