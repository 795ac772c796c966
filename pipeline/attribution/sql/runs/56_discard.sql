DELETE FROM {table:Identifier} WHERE run_id IN {run_ids:Array(UInt64)}
