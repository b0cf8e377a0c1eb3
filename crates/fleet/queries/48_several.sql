-- Blocks of the latest scan of each host with the number of their copies; where that is one, the
-- maxima are the row itself.
SELECT
    host,
    size_bytes,
    definition,
    count(*) AS copies,
    max(kernel) AS kernel,
    max(role) AS role,
    max(rack) AS rack,
    max(uptime_seconds) AS uptime_seconds,
    max(memory_bytes) AS memory_bytes,
    max(free_bytes) AS free_bytes,
    max(blocks) AS blocks,
    max(free_blocks) AS free_blocks,
    max(unmovable_blocks_low) AS unmovable_blocks_low,
    max(unmovable_blocks_high) AS unmovable_blocks_high,
    max(potential_blocks_low) AS potential_blocks_low,
    max(potential_blocks_high) AS potential_blocks_high,
    max(internal_free_ppm_low) AS internal_free_ppm_low,
    max(internal_free_ppm_high) AS internal_free_ppm_high
FROM sizes
WHERE problem IS NULL
GROUP BY host, size_bytes, definition
