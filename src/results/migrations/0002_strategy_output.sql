-- The end of what a strategy printed: for whoever wonders what it did.
ALTER TABLE trials ADD COLUMN output TEXT NOT NULL DEFAULT '';
