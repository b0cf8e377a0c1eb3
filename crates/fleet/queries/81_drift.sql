-- How each host changed between its first and its last scan within the dates that were asked for:
-- unmovable 2 MB blocks (thousandths, K, upper end). Time and share travel in one number, so that
-- the share of the earliest and of the latest scan comes out of a plain minimum and maximum.
SELECT (last_value - first_value) AS permille_change, count(*) AS hosts
FROM (
    SELECT
        host,
        min(unix_time_seconds * 2000 + permille) % 2000 AS first_value,
        max(unix_time_seconds * 2000 + permille) % 2000 AS last_value,
        min(unix_time_seconds) AS first_seconds,
        max(unix_time_seconds) AS last_seconds
    FROM (
        SELECT
            good.host,
            good.unix_time_seconds,
            CAST(floor(unmovable_blocks_high * 1E3 / blocks) AS BIGINT) AS permille
        FROM counted
        JOIN good
            ON good.host = counted.host AND good.unix_time_seconds = counted.unix_time_seconds
        CROSS JOIN parameters
        WHERE kind = 'size' AND definition = 'K' AND size_bytes = 2097152 AND blocks > 0
            AND good.unix_time_seconds >= from_seconds AND good.unix_time_seconds <= to_seconds
    ) AS shares
    GROUP BY host
) AS ends
WHERE last_seconds > first_seconds
GROUP BY last_value - first_value
ORDER BY permille_change
