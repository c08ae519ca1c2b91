CREATE SCHEMA IF NOT EXISTS pgthaw;
CREATE TABLE pgthaw.warm_set (
    path pg_catalog.text COLLATE pg_catalog."C",
    fork pg_catalog.text COLLATE pg_catalog."C",
    relation pg_catalog.bytea NOT NULL,
    relation_blocks pg_catalog.int8 NOT NULL,
    tiers pg_catalog.text[] NOT NULL,
    heats pg_catalog.int4[] NOT NULL,
    bitmaps pg_catalog.bytea[] NOT NULL,
    PRIMARY KEY (path, fork)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.1);
CREATE TABLE pgthaw.warm_set_state (
    format pg_catalog.int4 PRIMARY KEY,
    system_identifier pg_catalog.int8 NOT NULL,
    taken_at pg_catalog.timestamptz NOT NULL,
    os pg_catalog.text NOT NULL,
    buffers pg_catalog.text NOT NULL,
    os_heat pg_catalog.text NOT NULL,
    written_bytes pg_catalog.int8 NOT NULL,
    written_since pg_catalog.timestamptz NOT NULL
) WITH (fillfactor = 50);
