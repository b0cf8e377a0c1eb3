-- Blocks of the latest scan of each host, by size and definition, that count. Of copies that differ
-- the one counts, as a whole, that has the larger share of unmovable blocks.
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
            PARTITION BY host, size_bytes, definition
            ORDER BY
                unmovable_blocks_high * 1E0 / greatest(blocks, 1) DESC,
                blocks DESC,
                unmovable_blocks_low DESC,
                free_blocks,
                potential_blocks_low,
                potential_blocks_high,
                coalesce(internal_free_ppm_high, -1) DESC,
                coalesce(internal_free_ppm_low, -1)
        ) AS place
    FROM sizes
    WHERE problem IS NULL
) AS ranked
WHERE place = 1
