-- The latest scan of each host. Where one scan was delivered twice with different values, the worse
-- one counts, and `copies` says so. In all joins the small side comes first: an engine that does
-- not know better keeps that one in memory.
SELECT
    good.host,
    good.unix_time_seconds,
    max(kernel) AS kernel,
    max(role) AS role,
    max(rack) AS rack,
    max(uptime_seconds) AS uptime_seconds,
    max(memory_bytes) AS memory_bytes,
    min(free_bytes) AS free_bytes,
    min(memory_bytes) AS least_memory_bytes,
    max(free_bytes) AS most_free_bytes,
    count(*) AS copies
FROM (
    SELECT host, max(unix_time_seconds) AS unix_time_seconds
    FROM each_scan
    GROUP BY host
) AS latest
JOIN good
    ON good.host = latest.host AND good.unix_time_seconds = latest.unix_time_seconds
WHERE kind = 'machine'
GROUP BY good.host, good.unix_time_seconds
