-- Every scan that counts, once: those whose row of kind `machine` has no problem. Its memory and
-- uptime (the ends, where it was delivered twice with different values), and its unmovable 2 MB
-- blocks (thousandths, K, upper end; the worse value). What asks for days reads this table: one
-- pass over all rows, and no join of them with themselves.
SELECT
    host,
    unix_time_seconds,
    min(CASE WHEN kind = 'machine' THEN memory_bytes END) AS smallest_bytes,
    max(CASE WHEN kind = 'machine' THEN memory_bytes END) AS largest_bytes,
    min(CASE WHEN kind = 'machine' THEN uptime_seconds END) AS least_uptime_seconds,
    max(CASE WHEN kind = 'machine' THEN uptime_seconds END) AS most_uptime_seconds,
    max(CASE WHEN kind = 'size' THEN CAST(floor(unmovable_blocks_high * 1E3 / blocks) AS BIGINT) END)
        AS permille
FROM good
WHERE kind = 'machine'
    OR (kind = 'size' AND definition = 'K' AND size_bytes = 2097152 AND blocks > 0)
GROUP BY host, unix_time_seconds
HAVING max(CASE WHEN kind = 'machine' THEN 1 ELSE 0 END) = 1
