-- When a message's spans became queryable, by the store's clock: with received_ns, the freshness that `tokenpath status` shows.
ALTER TABLE arrivals ADD COLUMN IF NOT EXISTS stored_at DateTime64(6, 'UTC') DEFAULT now64(6)
