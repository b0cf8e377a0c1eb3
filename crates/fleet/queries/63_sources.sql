-- Figure 6: unmovable pages of the fleet by source, of the latest scan of each host.
SELECT source, sum(pages) AS pages, count(*) AS hosts
FROM (
    SELECT good.host, source, max(source_pages) AS pages
    FROM machines
    JOIN good
        ON good.host = machines.host AND good.unix_time_seconds = machines.unix_time_seconds
    WHERE kind = 'source'
    GROUP BY good.host, source
) AS by_host
GROUP BY source
ORDER BY source
