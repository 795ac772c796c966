-- Counts and money per window of a run, as its tables have them.
SELECT
    window_from,
    sum(request_rows) AS requests,
    sum(attempt_rows) AS attempts,
    sum(pool_money) AS pools_atoms,
    sum(ledger_money) AS ledger_atoms
FROM (
    SELECT window_from, count() AS request_rows, 0 AS attempt_rows, toInt128(0) AS pool_money, toInt128(0) AS ledger_money
    FROM requests WHERE run_id = {run_id:UInt64} GROUP BY window_from
    UNION ALL
    SELECT window_from, 0, count(), toInt128(0), toInt128(0) FROM attempts WHERE run_id = {run_id:UInt64} GROUP BY window_from
    UNION ALL
    SELECT window_from, 0, 0, sum(atoms), toInt128(0) FROM pools WHERE run_id = {run_id:UInt64} GROUP BY window_from
    UNION ALL
    SELECT window_from, 0, 0, toInt128(0), sum(atoms) FROM ledger WHERE run_id = {run_id:UInt64} GROUP BY window_from
)
WHERE window_from >= toDateTime(intDiv({from_ns:Int64}, 1000000000), 'UTC') AND window_from < toDateTime(intDiv({to_ns:Int64}, 1000000000), 'UTC')
GROUP BY window_from
