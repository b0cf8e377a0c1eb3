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
    FROM each_scan
    CROSS JOIN parameters
    WHERE permille IS NOT NULL
        AND unix_time_seconds >= from_seconds AND unix_time_seconds <= to_seconds
    GROUP BY host
) AS ends
WHERE last_seconds > first_seconds
GROUP BY last_value - first_value
ORDER BY permille_change
