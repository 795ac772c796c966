SELECT count() FROM {table:Identifier} WHERE config_hash = {config_hash:String}
