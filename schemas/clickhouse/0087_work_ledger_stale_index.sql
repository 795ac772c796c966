-- Scratch of the one running attribution job: the same classes as in ledger.
ALTER TABLE work_ledger MODIFY COLUMN class Enum8('useful' = 1, 'late' = 2, 'aborted' = 3, 'failed' = 4, 'superseded' = 5, 'blocked' = 6, 'unmetered' = 7,
                'overgenerated' = 8, 'recompute' = 9, 'rejected_draft' = 10, 'affinity_miss' = 11, 'unattributed' = 12,
                'platform_waste' = 13, 'idle_reserved' = 14, 'idle' = 15, 'overhead' = 16, 'stale_index' = 17)
