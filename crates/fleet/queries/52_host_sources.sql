-- Unmovable pages by source, of the latest scan of each host.
SELECT good.host, source, max(source_pages) AS pages, max(source_blocks_2m) AS blocks_2m
FROM machines
JOIN good
    ON good.host = machines.host AND good.unix_time_seconds = machines.unix_time_seconds
WHERE kind = 'source' AND source_pages > 0
GROUP BY good.host, source
