-- Unmovable 2 MB blocks (thousandths, K, upper end) of all scans of each day.
SELECT
    CAST(floor(unix_time_seconds / 864E2) AS BIGINT) AS day,
    permille,
    count(*) AS scan_count
FROM (
    SELECT
        host,
        unix_time_seconds,
        max(CAST(floor(unmovable_blocks_high * 1E3 / blocks) AS BIGINT)) AS permille
    FROM good
    WHERE kind = 'size' AND definition = 'K' AND size_bytes = 2097152 AND blocks > 0
    GROUP BY host, unix_time_seconds
) AS scans_once
GROUP BY CAST(floor(unix_time_seconds / 864E2) AS BIGINT), permille
ORDER BY day, permille
