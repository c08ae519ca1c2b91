-- One row per second of a trial of a sweep: what the machine did. Seconds of processor time within one second are
-- processors in use.
CREATE TABLE sweep_os_samples (
    sweep_id                    TEXT NOT NULL,
    number                      INTEGER NOT NULL,
    repeat                      INTEGER NOT NULL,
    second                      INTEGER NOT NULL, -- its end, since the start of the workload: 1 for the first
    generator_cpu_seconds       DOUBLE PRECISION NOT NULL, -- pgbench, all threads
    generator_run_delay_seconds DOUBLE PRECISION NOT NULL, -- ready to run, and waiting for a processor
    busiest_thread_cpu_seconds  DOUBLE PRECISION NOT NULL, -- the thread of pgbench with the most
    generator_threads           JSON NOT NULL,             -- each thread
    server_cpu_seconds          DOUBLE PRECISION NOT NULL, -- all processes of the server
    server_run_delay_seconds    DOUBLE PRECISION NOT NULL,
    server                      JSON NOT NULL,             -- by what they are for
    pgthaw_cpu_seconds          DOUBLE PRECISION NOT NULL,
    processors_busy_seconds     DOUBLE PRECISION NOT NULL, -- all processors, whoever used them
    processors_iowait_seconds   DOUBLE PRECISION NOT NULL,
    processors_steal_seconds    DOUBLE PRECISION NOT NULL,
    device_reads                BIGINT,                    -- NULL, and so on: the data directory is on no disk
    device_read_bytes           BIGINT,
    device_writes               BIGINT,
    device_written_bytes        BIGINT,
    device_read_await_us        DOUBLE PRECISION,          -- NULL also in a second without a read
    device_write_await_us       DOUBLE PRECISION,
    device_queue                DOUBLE PRECISION,          -- requests under way in the mean
    device_busy_ratio           DOUBLE PRECISION,
    available_bytes             BIGINT NOT NULL,
    cached_bytes                BIGINT NOT NULL,
    dirty_bytes                 BIGINT NOT NULL,
    writeback_bytes             BIGINT NOT NULL,
    pressure_cpu_some           DOUBLE PRECISION,          -- shares of the second; NULL: the kernel does not measure it
    pressure_io_some            DOUBLE PRECISION,
    pressure_io_full            DOUBLE PRECISION,
    pressure_memory_some        DOUBLE PRECISION,
    pressure_memory_full        DOUBLE PRECISION,
    PRIMARY KEY (sweep_id, number, repeat, second),
    FOREIGN KEY (sweep_id, number, repeat) REFERENCES sweep_trials (sweep_id, number, repeat) ON DELETE CASCADE
);
