-- Figure 6: unmovable pages of the fleet by source, of the latest scan of each host.
SELECT source, sum(pages) AS pages, count(*) AS hosts
FROM host_sources
GROUP BY source
ORDER BY source
