-- What was written to the device in the seconds that were gauged: writes per second, and all bytes. NULL where none was.
ALTER TABLE sweep_outlines ADD COLUMN device_writes_per_second DOUBLE PRECISION;
ALTER TABLE sweep_outlines ADD COLUMN device_written_bytes BIGINT;

UPDATE sweep_outlines
SET device_writes_per_second = (
        SELECT CAST(avg(device_writes) AS DOUBLE PRECISION)
        FROM sweep_os_samples
        WHERE sweep_os_samples.sweep_id = sweep_outlines.sweep_id
          AND sweep_os_samples.number = sweep_outlines.number
          AND sweep_os_samples.repeat = sweep_outlines.repeat),
    device_written_bytes = (
        SELECT CAST(sum(device_written_bytes) AS BIGINT)
        FROM sweep_os_samples
        WHERE sweep_os_samples.sweep_id = sweep_outlines.sweep_id
          AND sweep_os_samples.number = sweep_outlines.number
          AND sweep_os_samples.repeat = sweep_outlines.repeat);
