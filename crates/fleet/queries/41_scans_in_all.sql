-- How many scans there are, of how many hosts and days, and host names that more than one machine
-- seems to use: the size of memory changes to and fro by more than a hundredth.
SELECT
    sum(scan_count) AS scan_count,
    count(*) AS hosts,
    min(first_seconds) AS first_seconds,
    max(last_seconds) AS last_seconds,
    sum(CASE WHEN (largest_bytes - smallest_bytes) * 100 > largest_bytes THEN 1 ELSE 0 END)
        AS hosts_of_two_sizes,
    min(CASE WHEN (largest_bytes - smallest_bytes) * 100 > largest_bytes THEN host END)
        AS example_of_two_sizes
FROM (
    SELECT
        host,
        count(*) AS scan_count,
        min(unix_time_seconds) AS first_seconds,
        max(unix_time_seconds) AS last_seconds,
        min(smallest_bytes) AS smallest_bytes,
        max(largest_bytes) AS largest_bytes
    FROM each_scan
    GROUP BY host
) AS by_host
