-- Of an attempt that a client left and whose usage nobody told: at least what was delivered, at most what its time and its limit allow.
-- NULL: told, or nothing bounds it.
ALTER TABLE attempts
    ADD COLUMN IF NOT EXISTS output_tokens_min Nullable(UInt64),
    ADD COLUMN IF NOT EXISTS output_tokens_max Nullable(UInt64)
