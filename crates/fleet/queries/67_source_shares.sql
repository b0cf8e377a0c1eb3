-- Figure 6 over hosts: pages of a source in thousandths of the host's unmovable pages; how many
-- hosts have each value. A source that a host has no page of counts as 0 there. The names of the
-- sources come from a table: of SELECT DISTINCT the engine concludes that a name decides the rest of
-- its row, through both joins, and sorts by the name alone.
SELECT source, permille, count(*) AS hosts
FROM (
    SELECT
        names.source AS source,
        CAST(floor(coalesce(pages, 0) * 1E3 / all_pages) AS BIGINT) AS permille
    FROM (
        SELECT source, host, all_pages
        FROM sources
        CROSS JOIN (
            SELECT host, sum(pages) AS all_pages FROM host_sources GROUP BY host
        ) AS totals
    ) AS names
    LEFT JOIN host_sources
        ON host_sources.host = names.host AND host_sources.source = names.source
) AS shares
GROUP BY source, permille
ORDER BY source, permille
