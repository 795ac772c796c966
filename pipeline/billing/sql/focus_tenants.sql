-- Names and billing accounts as the newest configuration knows them.
SELECT tenant, name, billing_account
FROM tenants
WHERE config_hash = (SELECT argMax(config_hash, recorded_at) FROM config_versions)
