-- Each inventory row is cut where a price of its GPU begins or ends. A stretch without a price stays, priced = 0: it counts time, no money.
INSERT INTO work_segments
WITH prices AS (
    SELECT gpu, purchase, groupArray((from_ns, to_ns, price_id, currency, atoms_per_gpu_hour)) AS price_rows
    FROM gpu_prices
    WHERE config_hash = {config_hash:String}
    GROUP BY gpu, purchase
),
constants AS (
    SELECT model, precision, any(flop_per_token) AS flop_per_token,
        any(attention_flop_per_token) AS attention_flop_per_token, any(weight_bytes) AS weight_bytes, any(kv_bytes_per_token) AS kv_bytes_per_token
    FROM model_constants
    WHERE config_hash = {config_hash:String}
    GROUP BY model, precision
),
held AS (
    SELECT
        i.replica AS replica,
        i.gpus AS gpus,
        i.flops_per_second AS flops_per_second,
        i.bytes_per_second AS bytes_per_second,
        i.prefill_budget_tokens AS prefill_budget_tokens,
        c.flop_per_token AS flop_per_token,
        c.attention_flop_per_token AS attention_flop_per_token,
        c.weight_bytes AS weight_bytes,
        c.kv_bytes_per_token AS kv_bytes_per_token,
        p.price_rows AS price_rows,
        arraySort(arrayDistinct(arrayConcat(
            [i.from_ns, i.to_ns],
            arrayFilter(t -> t > i.from_ns AND t < i.to_ns, arrayConcat(arrayMap(r -> r.1, p.price_rows), arrayMap(r -> r.2, p.price_rows)))
        ))) AS cuts
    FROM inventory AS i
    LEFT JOIN prices AS p ON i.gpu = p.gpu AND i.purchase = p.purchase
    LEFT JOIN constants AS c ON i.model = c.model AND i.precision = c.precision
    WHERE i.config_hash = {config_hash:String} AND i.from_ns < {until_ns:Int64} AND i.to_ns > {from_ns:Int64}
)
SELECT
    replica,
    cuts[n] AS segment_from,
    least(cuts[n + 1], {until_ns:Int64}) AS segment_to,
    arrayExists(r -> r.1 <= cuts[n] AND r.2 >= cuts[n + 1], price_rows) AS priced,
    arrayFirst(r -> r.1 <= cuts[n] AND r.2 >= cuts[n + 1], price_rows).4 AS currency,
    arrayFirst(r -> r.1 <= cuts[n] AND r.2 >= cuts[n + 1], price_rows).3 AS price_id,
    arrayFirst(r -> r.1 <= cuts[n] AND r.2 >= cuts[n + 1], price_rows).5 * gpus AS atoms_per_hour,
    flops_per_second,
    bytes_per_second,
    prefill_budget_tokens,
    flop_per_token,
    attention_flop_per_token,
    weight_bytes,
    kv_bytes_per_token,
    throwIf(
        toFloat64(atoms_per_hour) * toFloat64({until_ns:Int64} - segment_from) > exp2(126),
        'the price of a replica times its age passes 2^126 atoms x ns: check usd_per_gpu_hour, gpus and the dates in prices.toml and inventory.toml'
    ) + throwIf(
        flop_per_token > exp2(60) OR attention_flop_per_token > exp2(36) OR weight_bytes > exp2(60) OR kv_bytes_per_token > exp2(32),
        'constants of a model are beyond any machine (2^60 FLOP per token, 2^36 of attention per token of context, 2^60 bytes of weights, 2^32 bytes of KV per token)'
    ) = 0 AND flops_per_second >= 1000000 AND bytes_per_second >= 1000000 AND prefill_budget_tokens > 0 AND flop_per_token > 0 AND weight_bytes > 0
FROM held
ARRAY JOIN range(1, length(cuts)) AS n
WHERE cuts[n] < {until_ns:Int64} AND cuts[n + 1] > {from_ns:Int64}
