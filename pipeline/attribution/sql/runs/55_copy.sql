-- The run's windows from a scratch table into its table; neighbouring windows that were only read stay behind.
INSERT INTO {target:Identifier}
SELECT * REPLACE ({run_id:UInt64} AS run_id)
FROM {source:Identifier}
WHERE window_from >= toDateTime(intDiv({from_ns:Int64}, 1000000000), 'UTC') AND window_from < toDateTime(intDiv({to_ns:Int64}, 1000000000), 'UTC')
