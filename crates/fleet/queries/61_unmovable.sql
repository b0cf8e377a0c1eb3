-- Figure 5: blocks with an unmovable page, in thousandths of all blocks; how many hosts have each
-- value at either end of the interval.
SELECT size_bytes, definition, bound, permille, count(*) AS hosts
FROM (
    SELECT
        size_bytes,
        definition,
        'low' AS bound,
        CAST(floor(unmovable_blocks_low * 1E3 / blocks) AS BIGINT) AS permille
    FROM blocks
    WHERE blocks > 0
    UNION ALL
    SELECT
        size_bytes,
        definition,
        'high' AS bound,
        CAST(floor(unmovable_blocks_high * 1E3 / blocks) AS BIGINT) AS permille
    FROM blocks
    WHERE blocks > 0
) AS shares
GROUP BY size_bytes, definition, bound, permille
ORDER BY size_bytes, definition, bound, permille
