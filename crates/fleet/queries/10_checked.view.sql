-- Every row with what is wrong with it. A scan whose row of kind `machine` has a problem counts
-- nowhere.
SELECT
    scans.*,
    CASE
        WHEN schema_version IS NULL OR schema_version <> 2 THEN 'other schema version'
        WHEN host IS NULL OR host = '' THEN 'no host name'
        WHEN unix_time_seconds IS NULL OR unix_time_seconds < 1000000000 THEN 'no time'
        WHEN unix_time_seconds > now_seconds + 86400 THEN 'time in the future'
        WHEN kind = 'machine' AND (memory_bytes IS NULL OR memory_bytes <= 0
            OR memory_bytes > 1125899906842624) THEN 'no memory size'
        WHEN kind = 'machine' AND (free_bytes IS NULL OR free_bytes < 0 OR free_bytes > memory_bytes)
            THEN 'more free than there is'
        WHEN kind = 'machine' AND (uptime_seconds < 0 OR uptime_seconds > 10000000000)
            THEN 'uptime that cannot be'
        WHEN kind = 'size' AND (size_bytes IS NULL OR size_bytes < 4096
            OR size_bytes > 1125899906842624 OR size_bytes & (size_bytes - 1) <> 0
            OR definition IS NULL OR definition NOT IN ('K', 'P', 'O'))
            THEN 'no block size or definition'
        WHEN kind = 'size' AND (
            blocks IS NULL OR blocks < 0 OR blocks > 2305843009213693952E0 / size_bytes
            OR free_blocks IS NULL OR free_blocks < 0
            OR free_blocks > blocks OR unmovable_blocks_low IS NULL OR unmovable_blocks_low < 0
            OR unmovable_blocks_high IS NULL OR unmovable_blocks_low > unmovable_blocks_high
            OR unmovable_blocks_high > blocks OR potential_blocks_low IS NULL
            OR potential_blocks_low < 0 OR potential_blocks_high IS NULL
            OR potential_blocks_low > potential_blocks_high
            OR potential_blocks_low + unmovable_blocks_high > blocks
            OR potential_blocks_high + unmovable_blocks_low > blocks
            OR free_blocks + unmovable_blocks_low > blocks
            OR internal_free_ppm_low < 0 OR internal_free_ppm_high > 1000000
            OR internal_free_ppm_low > internal_free_ppm_high
        ) THEN 'blocks that cannot be'
        WHEN kind = 'source' AND (source IS NULL OR source_pages IS NULL OR source_pages < 0
            OR source_pages > 274877906944 OR source_blocks_2m < 0
            OR source_blocks_2m > source_pages)
            THEN 'no pages of a source'
        WHEN kind IN ('machine', 'size', 'source') THEN NULL
        ELSE 'unknown kind of row'
    END AS problem
FROM scans
CROSS JOIN parameters
