-- Free pages in unmovable 2 MB blocks, in thousandths of the pages of these blocks.
SELECT
    definition,
    CAST(floor(internal_free_ppm_high / 1E3) AS BIGINT) AS permille,
    count(*) AS hosts
FROM blocks
WHERE size_bytes = 2097152 AND internal_free_ppm_high IS NOT NULL
GROUP BY definition, CAST(floor(internal_free_ppm_high / 1E3) AS BIGINT)
ORDER BY definition, permille
