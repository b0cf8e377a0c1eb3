-- Blocks of the latest scan of each host, by size and definition.
SELECT
    good.host,
    good.size_bytes,
    good.definition,
    max(machines.kernel) AS kernel,
    max(machines.role) AS role,
    max(machines.rack) AS rack,
    max(machines.uptime_seconds) AS uptime_seconds,
    max(machines.memory_bytes) AS memory_bytes,
    min(machines.free_bytes) AS free_bytes,
    max(blocks) AS blocks,
    min(free_blocks) AS free_blocks,
    min(unmovable_blocks_low) AS unmovable_blocks_low,
    max(unmovable_blocks_high) AS unmovable_blocks_high,
    min(potential_blocks_low) AS potential_blocks_low,
    max(potential_blocks_high) AS potential_blocks_high,
    min(internal_free_ppm_low) AS internal_free_ppm_low,
    max(internal_free_ppm_high) AS internal_free_ppm_high
FROM machines
JOIN good
    ON good.host = machines.host AND good.unix_time_seconds = machines.unix_time_seconds
WHERE kind = 'size'
GROUP BY good.host, good.size_bytes, good.definition
