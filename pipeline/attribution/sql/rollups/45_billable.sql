SELECT toString(outcome), toString(bucket) FROM billable WHERE config_hash = {config_hash:String}
