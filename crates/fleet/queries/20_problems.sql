-- Rows that count nowhere, by reason, with one host for an example.
SELECT problem, count(*) AS row_count, count(DISTINCT host) AS hosts, min(host) AS example
FROM checked
WHERE problem IS NOT NULL
GROUP BY problem
ORDER BY problem
