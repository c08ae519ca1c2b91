-- Where the time of the server's processes went in a trial. NULL where nobody looked, and of trials that are older.
ALTER TABLE sweep_trials ADD COLUMN time JSON;
ALTER TABLE sweep_outlines ADD COLUMN time JSON;
