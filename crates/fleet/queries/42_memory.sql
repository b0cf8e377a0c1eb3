-- Memory of the machines, in MiB, and how many were delivered more than once.
SELECT
    CAST(floor(memory_bytes / 1048576E0) AS BIGINT) AS memory_mib,
    count(*) AS hosts,
    sum(CASE WHEN copies > 1 THEN 1 ELSE 0 END) AS hosts_with_copies
FROM machines
GROUP BY CAST(floor(memory_bytes / 1048576E0) AS BIGINT)
ORDER BY memory_mib
