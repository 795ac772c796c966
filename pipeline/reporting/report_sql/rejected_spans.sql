-- Their own times are what was wrong with them, so one counts if it says that it began in the range, or if it was received in it.
SELECT count()
FROM rejected_spans FINAL
WHERE (start_raw >= {from_ns:UInt64} AND start_raw < {to_ns:UInt64}) OR (received_ns >= {from_ns:UInt64} AND received_ns < {to_ns:UInt64})
