-- Unmovable 2 MB blocks (thousandths, K, upper end) by kernel, role and rack.
SELECT dimension, name, permille, count(*) AS hosts
FROM (
    SELECT
        'kernel' AS dimension,
        kernel AS name,
        CAST(floor(unmovable_blocks_high * 1E3 / blocks) AS BIGINT) AS permille
    FROM blocks
    WHERE definition = 'K' AND size_bytes = 2097152 AND blocks > 0
    UNION ALL
    SELECT
        'role' AS dimension,
        role AS name,
        CAST(floor(unmovable_blocks_high * 1E3 / blocks) AS BIGINT) AS permille
    FROM blocks
    WHERE definition = 'K' AND size_bytes = 2097152 AND blocks > 0
    UNION ALL
    SELECT
        'rack' AS dimension,
        rack AS name,
        CAST(floor(unmovable_blocks_high * 1E3 / blocks) AS BIGINT) AS permille
    FROM blocks
    WHERE definition = 'K' AND size_bytes = 2097152 AND blocks > 0
) AS named
WHERE name IS NOT NULL
GROUP BY dimension, name, permille
ORDER BY dimension, name, permille
