-- Of a trial: what warmed the cold server beside the load. NULL where nothing did.
ALTER TABLE sweep_trials ADD COLUMN strategy_outcome JSON;
