-- Blocks of the latest scan of each host, once for either end of the interval.
SELECT
    size_bytes,
    definition,
    bound,
    memory_bytes,
    blocks,
    CASE WHEN bound = 'low' THEN unmovable_blocks_low ELSE unmovable_blocks_high END
        AS unmovable_blocks,
    CASE WHEN bound = 'low' THEN potential_blocks_low ELSE potential_blocks_high END
        AS potential_blocks
FROM blocks
CROSS JOIN (VALUES ('low'), ('high')) AS bounds(bound)
