SELECT sku, model, tenant, toString(bucket), toString(currency), usd_per_million_tokens, from_ns, to_ns
FROM token_prices
WHERE config_hash = {config_hash:String}
ORDER BY model, tenant, bucket, from_ns, sku
