-- What was written here and belongs on a server that does not have it yet. On the server itself it stays empty.
CREATE TABLE unsent (
    server   TEXT NOT NULL, -- its address, without what is secret
    kind     TEXT NOT NULL, -- run, sweep or sweep trial
    id       TEXT NOT NULL, -- of the run or the sweep
    number   INTEGER NOT NULL,
    repeat   INTEGER NOT NULL,
    changes  BIGINT NOT NULL, -- how often it was written since it was sent
    PRIMARY KEY (server, kind, id, number, repeat)
);
