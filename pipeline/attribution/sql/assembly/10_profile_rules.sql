SELECT
    profile, rank, attribute, resource, toString(role) AS role, toString(layer) AS layer, stage, siblings_by, delivery_proof, fields, stages
FROM profile_rules
WHERE config_hash = {config_hash:String}
ORDER BY rank
