-- How many hosts the scans of each day are of.
SELECT
    CAST(floor(unix_time_seconds / 864E2) AS BIGINT) AS day,
    count(DISTINCT host) AS hosts
FROM each_scan
WHERE permille IS NOT NULL
GROUP BY CAST(floor(unix_time_seconds / 864E2) AS BIGINT)
ORDER BY day
