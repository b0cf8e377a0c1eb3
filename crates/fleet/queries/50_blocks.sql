-- Blocks of the latest scan of each host, by size and definition, that count. Of copies that differ
-- the one counts, as a whole, that has the larger share of unmovable blocks; there are few, and only
-- they are sorted.
SELECT
    sizes.host,
    sizes.size_bytes,
    sizes.definition,
    sizes.kernel,
    sizes.role,
    sizes.rack,
    sizes.uptime_seconds,
    sizes.memory_bytes,
    sizes.free_bytes,
    sizes.blocks,
    sizes.free_blocks,
    sizes.unmovable_blocks_low,
    sizes.unmovable_blocks_high,
    sizes.potential_blocks_low,
    sizes.potential_blocks_high,
    sizes.internal_free_ppm_low,
    sizes.internal_free_ppm_high
FROM sizes
LEFT JOIN several
    ON several.host = sizes.host
    AND several.size_bytes = sizes.size_bytes
    AND several.definition = sizes.definition
WHERE sizes.problem IS NULL AND several.host IS NULL
UNION ALL
SELECT
    host,
    size_bytes,
    definition,
    kernel,
    role,
    rack,
    uptime_seconds,
    memory_bytes,
    free_bytes,
    blocks,
    free_blocks,
    unmovable_blocks_low,
    unmovable_blocks_high,
    potential_blocks_low,
    potential_blocks_high,
    internal_free_ppm_low,
    internal_free_ppm_high
FROM (
    SELECT
        sizes.*,
        row_number() OVER (
            PARTITION BY sizes.host, sizes.size_bytes, sizes.definition
            ORDER BY
                sizes.unmovable_blocks_high * 1E0 / greatest(sizes.blocks, 1) DESC,
                sizes.blocks DESC,
                sizes.unmovable_blocks_low DESC,
                sizes.free_blocks,
                sizes.potential_blocks_low,
                sizes.potential_blocks_high,
                coalesce(sizes.internal_free_ppm_high, -1) DESC,
                coalesce(sizes.internal_free_ppm_low, -1)
        ) AS place
    FROM several
    JOIN sizes
        ON sizes.host = several.host
        AND sizes.size_bytes = several.size_bytes
        AND sizes.definition = several.definition
    WHERE sizes.problem IS NULL
) AS ranked
WHERE place = 1
