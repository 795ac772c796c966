SELECT DISTINCT tenant FROM tenant_windows WHERE tenant != '' ORDER BY tenant
