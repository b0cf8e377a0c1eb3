-- Memory in blocks without an unmovable page, in thousandths of all memory, and hosts that cannot
-- form a single such block.
SELECT
    size_bytes,
    definition,
    bound,
    CAST(floor(potential_blocks * size_bytes * 1E3 / memory_bytes) AS BIGINT) AS permille,
    count(*) AS hosts,
    sum(CASE WHEN potential_blocks = 0 THEN 1 ELSE 0 END) AS hosts_without
FROM ends
GROUP BY
    size_bytes,
    definition,
    bound,
    CAST(floor(potential_blocks * size_bytes * 1E3 / memory_bytes) AS BIGINT)
ORDER BY size_bytes, definition, bound, permille
