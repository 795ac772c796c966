SELECT count() FROM pool_prices WHERE config_hash = {config_hash:String}
