-- The hosts with the largest share of unmovable 2 MB blocks (K, upper end), and what they lack.
SELECT
    host_rank,
    ranked.host,
    kernel,
    role,
    rack,
    uptime_seconds,
    memory_bytes,
    free_bytes,
    blocks,
    free_blocks,
    unmovable_blocks_high,
    unmovable_pages,
    huge.potential_blocks_low AS potential_blocks_1g
FROM (
    SELECT
        blocks.*,
        row_number() OVER (
            ORDER BY
                CAST(floor(unmovable_blocks_high * 1E3 / blocks) AS BIGINT) DESC,
                unmovable_blocks_high DESC,
                host
        ) AS host_rank
    FROM blocks
    WHERE definition = 'K' AND size_bytes = 2097152 AND blocks > 0
) AS ranked
CROSS JOIN parameters
LEFT JOIN (
    SELECT host, unmovable_blocks_high AS unmovable_pages
    FROM blocks
    WHERE definition = 'K' AND size_bytes = 4096
) AS pages ON ranked.host = pages.host
LEFT JOIN (
    SELECT host, potential_blocks_low
    FROM blocks
    WHERE definition = 'K' AND size_bytes = 1073741824
) AS huge ON ranked.host = huge.host
WHERE host_rank <= worst_hosts
ORDER BY host_rank
