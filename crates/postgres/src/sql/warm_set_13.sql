-- Larger rows are not from pgthaw: 64 MB are the bitmap of some 4 TB. pg_column_size would return compressed sizes.
SELECT path, fork, relation, relation_blocks, tiers, heats, bitmaps
FROM pgthaw.warm_set
WHERE pg_catalog.octet_length(path) < 1000
  AND pg_catalog.octet_length(fork) < 100
  AND pg_catalog.octet_length(relation) < 100000
  AND pg_catalog.cardinality(heats) < 1000
  AND (SELECT pg_catalog.sum(pg_catalog.octet_length(one)) FROM pg_catalog.unnest(tiers) AS one) < 100000
  AND (SELECT pg_catalog.sum(pg_catalog.octet_length(one)) FROM pg_catalog.unnest(bitmaps) AS one) < 67108864
ORDER BY path, fork
