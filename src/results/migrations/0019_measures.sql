-- Measures without a column of their own, by name, in a document for each second: a new one needs no column. NULL in rows that
-- are older than this.
ALTER TABLE sweep_os_samples ADD COLUMN measures JSON;

CREATE VIEW sweep_measures AS
SELECT sweep_id,
       number,
       repeat,
       second,
       measure.key                                                 AS measure,
       CAST(CAST(measure.value AS TEXT) AS DOUBLE PRECISION)       AS value
FROM sweep_os_samples, json_each(sweep_os_samples.measures) AS measure;
