SELECT price_id, toString(currency), toString(atoms), replicas, gpus, time_zone, hours, from_ns, to_ns
FROM pool_prices
WHERE config_hash = {config_hash:String} AND pool = 'power' AND from_ns < {until_ns:Int64} AND to_ns > {from_ns:Int64}
ORDER BY price_id
