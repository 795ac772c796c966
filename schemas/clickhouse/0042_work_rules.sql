-- Scratch of the one running attribution job: the rule (its rank) that reads spans of these names of which, among the
-- conditions that matter for the names (bits of `relevant`), exactly those in `holding` hold. No row: no rule reads them.
CREATE TABLE IF NOT EXISTS work_rules (
    scope_name String,
    name String,
    relevant UInt32,
    holding UInt32,
    rank UInt32
) ENGINE = MergeTree ORDER BY (scope_name, name, holding)
SETTINGS ratio_of_defaults_for_sparse_serialization = 1
