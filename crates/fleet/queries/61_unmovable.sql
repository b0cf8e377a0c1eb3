-- Figure 5: blocks with an unmovable page, in thousandths of all blocks; how many hosts have each
-- value at either end of the interval.
SELECT
    size_bytes,
    definition,
    bound,
    CAST(floor(unmovable_blocks * 1E3 / blocks) AS BIGINT) AS permille,
    count(*) AS hosts
FROM ends
WHERE blocks > 0
GROUP BY size_bytes, definition, bound, CAST(floor(unmovable_blocks * 1E3 / blocks) AS BIGINT)
ORDER BY size_bytes, definition, bound, permille
