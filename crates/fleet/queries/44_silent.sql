-- Hosts whose latest scan is a week older than the newest of the fleet: they are gone, or their
-- clock is behind.
SELECT count(*) AS hosts, min(host) AS example
FROM (SELECT max(unix_time_seconds) AS newest_seconds FROM machines) AS fleet
CROSS JOIN machines
WHERE unix_time_seconds < newest_seconds - 604800
