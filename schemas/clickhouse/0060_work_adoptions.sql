-- Scratch of the one running attribution job: what became of orphans, by round of joining. `joined`: its tree goes to another trace, under `to_span`, or above
-- it if it is a client's view; `ambiguous`: more than one request may be meant, so it stays alone; `below`: it has a request after all.
CREATE TABLE IF NOT EXISTS work_adoptions (
    trace_id FixedString(16),
    span_id FixedString(8),
    round UInt8,
    layer Enum8('none' = 0, 'client' = 1, 'gateway' = 2, 'router' = 3, 'engine' = 4, 'cache' = 5),
    state Enum8('joined' = 1, 'ambiguous' = 2, 'below' = 3),
    to_trace FixedString(16),
    to_span FixedString(8)
) ENGINE = MergeTree ORDER BY tuple()
SETTINGS ratio_of_defaults_for_sparse_serialization = 1
