-- Per window of a run, from the scratch tables: counts, money, and a hash over all rows that depends neither on their order nor on the run.
SELECT
    window_from,
    sum(request_rows) AS requests,
    sum(attempt_rows) AS attempts,
    sum(pool_money) AS pools_atoms,
    sum(ledger_money) AS ledger_atoms,
    lower(hex(sipHash128(groupArray((source, rows_seen, row_hash_sum))))) AS content_hash
FROM (
    SELECT
        window_from,
        source,
        count() AS rows_seen,
        sum(row_hash) AS row_hash_sum,
        countIf(source = 'requests') AS request_rows,
        countIf(source = 'attempts') AS attempt_rows,
        sumIf(money, source = 'pools') AS pool_money,
        sumIf(money, source = 'ledger') AS ledger_money
    FROM (
        SELECT window_from, 'requests' AS source, reinterpretAsUInt128(sipHash128(formatRow('RowBinary', * EXCEPT run_id))) AS row_hash, toInt128(0) AS money
        FROM work_requests WHERE run_id = {run_id:UInt64}
        UNION ALL
        SELECT window_from, 'attempts', reinterpretAsUInt128(sipHash128(formatRow('RowBinary', * EXCEPT run_id))), toInt128(0)
        FROM work_attempts WHERE run_id = {run_id:UInt64}
        UNION ALL
        SELECT window_from, 'blames', reinterpretAsUInt128(sipHash128(formatRow('RowBinary', * EXCEPT run_id))), toInt128(0)
        FROM work_blames WHERE run_id = {run_id:UInt64}
        UNION ALL
        SELECT window_from, 'pools', reinterpretAsUInt128(sipHash128(formatRow('RowBinary', * EXCEPT run_id))), atoms
        FROM work_pools WHERE run_id = {run_id:UInt64}
        UNION ALL
        SELECT window_from, 'ledger', reinterpretAsUInt128(sipHash128(formatRow('RowBinary', * EXCEPT run_id))), atoms
        FROM work_ledger WHERE run_id = {run_id:UInt64}
        UNION ALL
        SELECT window_from, 'left_out', reinterpretAsUInt128(sipHash128(formatRow('RowBinary', * EXCEPT run_id))), toInt128(0)
        FROM work_left_out WHERE run_id = {run_id:UInt64}
        UNION ALL
        SELECT window_from, 'measures', reinterpretAsUInt128(sipHash128(formatRow('RowBinary', * EXCEPT run_id))), toInt128(0)
        FROM work_measures WHERE run_id = {run_id:UInt64}
    )
    WHERE window_from >= toDateTime(intDiv({from_ns:Int64}, 1000000000), 'UTC') AND window_from < toDateTime(intDiv({to_ns:Int64}, 1000000000), 'UTC')
    GROUP BY window_from, source
    ORDER BY window_from, source
)
GROUP BY window_from
ORDER BY window_from
