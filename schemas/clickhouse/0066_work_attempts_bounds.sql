ALTER TABLE work_attempts
    ADD COLUMN IF NOT EXISTS output_tokens_min Nullable(UInt64),
    ADD COLUMN IF NOT EXISTS output_tokens_max Nullable(UInt64)
