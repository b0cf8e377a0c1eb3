-- Memory in blocks without an unmovable page, in thousandths of all memory, and hosts that cannot
-- form a single such block.
SELECT size_bytes, definition, bound, permille, count(*) AS hosts, sum(without) AS hosts_without
FROM (
    SELECT
        size_bytes,
        definition,
        'low' AS bound,
        CAST(floor(potential_blocks_low * size_bytes * 1E3 / memory_bytes) AS BIGINT)
            AS permille,
        CASE WHEN potential_blocks_low = 0 THEN 1 ELSE 0 END AS without
    FROM blocks
    UNION ALL
    SELECT
        size_bytes,
        definition,
        'high' AS bound,
        CAST(floor(potential_blocks_high * size_bytes * 1E3 / memory_bytes) AS BIGINT)
            AS permille,
        CASE WHEN potential_blocks_high = 0 THEN 1 ELSE 0 END AS without
    FROM blocks
) AS shares
GROUP BY size_bytes, definition, bound, permille
ORDER BY size_bytes, definition, bound, permille
