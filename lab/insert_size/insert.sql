INSERT INTO pgbench_history (tid, bid, aid, delta, mtime)
SELECT 1, 1, number, 0, CURRENT_TIMESTAMP FROM generate_series(1, :rows) AS number;
