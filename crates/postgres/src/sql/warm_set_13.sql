-- Larger rows are not from pgthaw: 64 MB are the bitmap of some 4 TB.
SELECT path, fork, relation, relation_blocks, tiers, heats, bitmaps
FROM pgthaw.warm_set
WHERE pg_catalog.pg_column_size(bitmaps) < 67108864
  AND pg_catalog.pg_column_size(relation) < 100000
ORDER BY path, fork
