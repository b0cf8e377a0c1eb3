-- Scans that count: those whose row of kind `machine` has no problem.
SELECT DISTINCT host, unix_time_seconds FROM good WHERE kind = 'machine'
