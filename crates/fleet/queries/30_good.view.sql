-- Rows without a problem.
SELECT * FROM checked WHERE problem IS NULL
