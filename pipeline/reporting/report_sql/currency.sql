SELECT toString(any(currency)) FROM config_versions WHERE config_hash = {config_hash:String}
