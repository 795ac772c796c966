-- The same in every window of the run: readers pick a window's run.
INSERT INTO baselines
SELECT toDateTime(intDiv(window_ns, 1000000000), 'UTC'), {run_id:UInt64}, model, part, stage, unit, source, n, ps_per_unit
FROM work_baselines
ARRAY JOIN range({from_ns:Int64}, {to_ns:Int64}, {window_ns:Int64}) AS window_ns
