-- Hosts, sizes and definitions of which the latest scan has more than one row that counts.
SELECT host, size_bytes, definition
FROM sizes
WHERE problem IS NULL
GROUP BY host, size_bytes, definition
HAVING count(*) > 1
