INSERT INTO pgthaw.warm_set AS old (path, fork, relation, relation_blocks, tiers, heats, bitmaps)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (path, fork) DO UPDATE SET
    relation = excluded.relation,
    relation_blocks = excluded.relation_blocks,
    tiers = excluded.tiers,
    heats = excluded.heats,
    bitmaps = excluded.bitmaps
