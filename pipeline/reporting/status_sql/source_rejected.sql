-- By receipt or by the start that they claim, as in the report: their times are what is wrong with them.
SELECT service_name AS service, toString(r.principal) AS principal, count() AS spans
FROM rejected_spans AS r FINAL
WHERE (start_raw >= {from_ns:UInt64} AND start_raw < {to_ns:UInt64}) OR (received_ns >= {from_ns:UInt64} AND received_ns < {to_ns:UInt64})
GROUP BY service, principal
ORDER BY spans DESC, service, principal
LIMIT {sources_max:UInt64}
