-- Rows of latest scans that do not fit the memory of their host; they count nowhere.
SELECT problem, count(*) AS row_count, count(DISTINCT host) AS hosts, min(host) AS example
FROM sizes
WHERE problem IS NOT NULL
GROUP BY problem
ORDER BY problem
