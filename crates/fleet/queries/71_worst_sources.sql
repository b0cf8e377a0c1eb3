-- The sources of unmovable pages of the worst hosts.
SELECT host_rank, source, max(source_pages) AS pages, max(source_blocks_2m) AS blocks_2m
FROM worst
JOIN machines ON worst.host = machines.host
JOIN good
    ON good.host = machines.host AND good.unix_time_seconds = machines.unix_time_seconds
WHERE kind = 'source' AND source_pages > 0
GROUP BY host_rank, source
ORDER BY host_rank, pages DESC, source
