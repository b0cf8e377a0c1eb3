-- The sources of unmovable pages of the worst hosts.
SELECT host_rank, source, pages, blocks_2m
FROM worst
JOIN host_sources ON worst.host = host_sources.host
ORDER BY host_rank, pages DESC, source
