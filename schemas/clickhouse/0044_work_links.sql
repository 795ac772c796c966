-- Scratch of the one running attribution job: pointers up a trace, one row per (pass, span, viewer) and step of pointer jumping.
-- Nodes are the spans with role request or inference. `open`: the search goes on at span `at`; the last row of a pointer is not open.
--   unmarked  a span that is no node but somebody's parent -> its nearest node; `within`: the innermost stage from here up to that node
--   mark      a node -> its nearest node above; `hard`: to whom it belongs is not plain from this alone, nor for the rest of its trace
--   above     a node -> its nearest request span above that `viewer`, a principal, may join
--   claim     a platform request span -> `viewer` is the tenant principal that it names
--   root      an inference span -> the request span that it belongs to
--   top       an inference span without one -> the outermost inference span that it may join
--   nest      an inference span -> each inference span of its request around it, `step` hops above
--   wrapper   an inference span around another of its own layer
--   target    an inference span -> the inference span of another layer that names their common attempt
--   leg       an engine span -> the first of those on whose workers one inference ran, itself too; `within` 0: a span of another layer ->
--             the first of those that tell of the same call
--   orphan    a span in the trace of a possible orphan -> the platform's nearest request or call above it
--   tree      a span in the trace of an orphan that found somebody -> that orphan, if it stands above
--   holder    a span in the trace of a span that holds an orphan's id -> the platform's request that it belongs to
CREATE TABLE IF NOT EXISTS work_links (
    pass Enum8('unmarked' = 1, 'mark' = 2, 'above' = 3, 'claim' = 4, 'root' = 5, 'top' = 6, 'nest' = 7, 'wrapper' = 8, 'target' = 9, 'orphan' = 10, 'tree' = 11, 'holder' = 12, 'leg' = 13),
    step UInt8,
    trace_id FixedString(16),
    span_id FixedString(8),
    viewer LowCardinality(String),
    at FixedString(8),
    state LowCardinality(String),  -- found, nothing, open; '' is what a LEFT JOIN gives where there is no row
    stage UInt8,
    within UInt8,
    hard UInt8
) ENGINE = MergeTree ORDER BY (pass, step)
SETTINGS ratio_of_defaults_for_sparse_serialization = 1
