-- Unmovable 2 MB blocks (thousandths, K, upper end) of all scans of each day.
SELECT
    CAST(floor(unix_time_seconds / 864E2) AS BIGINT) AS day,
    permille,
    count(*) AS scan_count
FROM (
    SELECT
        good.host,
        good.unix_time_seconds,
        max(CAST(floor(unmovable_blocks_high * 1E3 / blocks) AS BIGINT)) AS permille
    FROM counted
    JOIN good
        ON good.host = counted.host AND good.unix_time_seconds = counted.unix_time_seconds
    WHERE kind = 'size' AND definition = 'K' AND size_bytes = 2097152 AND blocks > 0
    GROUP BY good.host, good.unix_time_seconds
) AS scans_once
GROUP BY CAST(floor(unix_time_seconds / 864E2) AS BIGINT), permille
ORDER BY day, permille
