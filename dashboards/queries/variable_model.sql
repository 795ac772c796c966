SELECT DISTINCT model FROM tenant_windows WHERE model != '' ORDER BY model
