-- Unmovable 2 MB blocks (thousandths, K, upper end) by kernel, role and rack.
SELECT dimension, name, permille, count(*) AS hosts
FROM (
    SELECT
        dimension,
        CASE dimension WHEN 'kernel' THEN kernel WHEN 'role' THEN role ELSE rack END AS name,
        CAST(floor(unmovable_blocks_high * 1E3 / blocks) AS BIGINT) AS permille
    FROM blocks
    CROSS JOIN (VALUES ('kernel'), ('role'), ('rack')) AS dimensions(dimension)
    WHERE definition = 'K' AND size_bytes = 2097152 AND blocks > 0
) AS named
WHERE name IS NOT NULL
GROUP BY dimension, name, permille
ORDER BY dimension, name, permille
