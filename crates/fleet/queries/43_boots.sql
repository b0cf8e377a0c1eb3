-- Host names whose time of boot goes back by more than ten minutes from one scan to a later one: a
-- clock that was set back, or several machines of one name.
SELECT count(*) AS hosts, min(host) AS example
FROM (
    SELECT DISTINCT host
    FROM (
        SELECT
            host,
            unix_time_seconds - uptime_seconds AS boot_seconds,
            lag(unix_time_seconds - uptime_seconds) OVER (
                PARTITION BY host
                ORDER BY unix_time_seconds, uptime_seconds
            ) AS boot_before_seconds
        FROM good
        WHERE kind = 'machine' AND uptime_seconds IS NOT NULL
    ) AS boots
    WHERE boot_seconds < boot_before_seconds - 600
) AS hosts
