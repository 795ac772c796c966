-- When the inventory holds machines: stretches of replicas.
SELECT from_ns, to_ns FROM inventory WHERE config_hash = {config_hash:String} GROUP BY from_ns, to_ns ORDER BY from_ns, to_ns
