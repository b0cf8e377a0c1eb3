-- Host names whose time of boot goes back by more than ten minutes from one scan to a later one: a
-- clock that was set back, or several machines of one name. Of a scan that was delivered twice with
-- different values, both times of boot count.
SELECT count(*) AS hosts, min(host) AS example
FROM (
    SELECT DISTINCT host
    FROM (
        SELECT
            host,
            unix_time_seconds - most_uptime_seconds AS first_boot_seconds,
            unix_time_seconds - least_uptime_seconds AS last_boot_seconds,
            lag(unix_time_seconds - most_uptime_seconds) OVER (
                PARTITION BY host
                ORDER BY unix_time_seconds
            ) AS boot_before_seconds
        FROM each_scan
        WHERE most_uptime_seconds IS NOT NULL
    ) AS boots
    WHERE last_boot_seconds < boot_before_seconds - 600
        OR first_boot_seconds < last_boot_seconds - 600
) AS hosts
