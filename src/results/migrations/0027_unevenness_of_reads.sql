-- How uneven the reads of the seconds were. NULL of trials that are older.
ALTER TABLE sweep_outlines ADD COLUMN device_reads_unevenness DOUBLE PRECISION;
