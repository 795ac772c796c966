-- The rules (rank + 1) that read spans which collectors made of a gateway's or an engine's own records.
SELECT groupArray(toUInt32(rank + 1))
FROM profile_rules
WHERE config_hash = {config_hash:String} AND arrayExists(name -> startsWith(name, 'tokenpath.record.'), scope_names)
