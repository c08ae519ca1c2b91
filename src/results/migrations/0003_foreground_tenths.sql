-- What the workload's backends read in each tenth of a second, as a JSON list of bytes.
ALTER TABLE trials ADD COLUMN foreground_tenths TEXT NOT NULL DEFAULT '[]';
