-- Blocks of the latest scan of each host, by size and definition, with what does not fit the host's
-- memory: each block has a page of memory at least, every page lies in a block, and free blocks are
-- of free memory.
SELECT
    good.host,
    good.size_bytes,
    good.definition,
    machines.kernel,
    machines.role,
    machines.rack,
    machines.uptime_seconds,
    machines.memory_bytes,
    machines.free_bytes,
    good.blocks,
    good.free_blocks,
    good.unmovable_blocks_low,
    good.unmovable_blocks_high,
    good.potential_blocks_low,
    good.potential_blocks_high,
    good.internal_free_ppm_low,
    good.internal_free_ppm_high,
    CASE
        WHEN good.blocks * good.size_bytes < least_memory_bytes THEN 'fewer blocks than memory'
        WHEN good.blocks > machines.memory_bytes / 4096E0 THEN 'more blocks than memory'
        WHEN good.potential_blocks_high * good.size_bytes > machines.memory_bytes
            THEN 'more blocks than memory'
        WHEN good.free_blocks * good.size_bytes > most_free_bytes
            THEN 'more free blocks than free memory'
    END AS problem
FROM machines
JOIN good
    ON good.host = machines.host AND good.unix_time_seconds = machines.unix_time_seconds
WHERE good.kind = 'size'
