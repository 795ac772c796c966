SELECT argMax(config_hash, recorded_at) FROM config_versions
