-- Sums for Pearson's coefficient of uptime (hours) with free and with unmovable 2 MB blocks (both
-- in thousandths of all blocks; K, upper end). Whole numbers: exact in any order.
SELECT
    count(*) AS hosts,
    sum(x) AS x,
    sum(x * x) AS xx,
    sum(f) AS f,
    sum(f * f) AS ff,
    sum(x * f) AS xf,
    sum(u) AS u,
    sum(u * u) AS uu,
    sum(x * u) AS xu
FROM (
    SELECT
        CAST(floor(uptime_seconds / 36E2) AS BIGINT) AS x,
        CAST(floor(free_blocks * 1E3 / blocks) AS BIGINT) AS f,
        CAST(floor(unmovable_blocks_high * 1E3 / blocks) AS BIGINT) AS u
    FROM blocks
    WHERE definition = 'K' AND size_bytes = 2097152 AND blocks > 0 AND uptime_seconds IS NOT NULL
) AS pairs
