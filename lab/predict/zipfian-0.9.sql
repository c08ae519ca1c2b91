-- Zipfian 0.9, scattered. pgbench draws none below 1.001, so the rank is the inverse of the integral of k^-0.9 from 1/2 to
-- n + 1/2: its probabilities are those of the sum from rank 2 on within 2 %, of rank 1 within 8 %. The constant is 0.5^0.1.
\set top pow(100000 * :scale + 0.5, 0.1) - 0.9330329915
\set part random(0, 1000000000) / 1000000000.0
\set rank least(int(pow(0.9330329915 + :top * :part, 10)), 100000 * :scale)
\set aid 1 + permute(:rank - 1, 100000 * :scale, 17)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
