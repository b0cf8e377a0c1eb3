-- Figure 4 of Contiguitas: free memory in wholly free blocks, in thousandths of free memory, of
-- hosts with enough free memory; how many hosts have each value.
SELECT
    size_bytes,
    CAST(floor(free_blocks * size_bytes * 1E3 / free_bytes) AS BIGINT) AS permille,
    count(*) AS hosts,
    sum(CASE WHEN free_blocks = 0 THEN 1 ELSE 0 END) AS hosts_without
FROM blocks
CROSS JOIN parameters
WHERE definition = 'K' AND free_bytes >= min_free_bytes AND free_bytes > 0
GROUP BY size_bytes, CAST(floor(free_blocks * size_bytes * 1E3 / free_bytes) AS BIGINT)
ORDER BY size_bytes, permille
