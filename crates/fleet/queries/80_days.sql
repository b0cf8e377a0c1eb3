-- Unmovable 2 MB blocks (thousandths, K, upper end) of all scans of each day.
SELECT
    CAST(floor(unix_time_seconds / 864E2) AS BIGINT) AS day,
    permille,
    count(*) AS scan_count
FROM each_scan
WHERE permille IS NOT NULL
GROUP BY CAST(floor(unix_time_seconds / 864E2) AS BIGINT), permille
ORDER BY day, permille
