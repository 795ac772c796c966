-- One day of attributed requests, spread evenly over windows, tenants and models; values from hashes of the request's number.
INSERT INTO requests (
    window_from, run_id, request_id, tenant, tenant_source, model, trace_id, root_span_id, started_at, ended_at, e2e_ns, ttft_ns, tpot_ns,
    queue_ns, streamed, attempts, input_tokens, output_tokens, input_uncached_tokens, input_cache_read_tokens, output_text_tokens,
    usage_source, usage_state, generated_tokens, delivered_tokens, delivery, useful_tokens, outcome, slo_ttft, slo_tpot, slo_e2e, stage_ns,
    stage_quality
)
SELECT
    toDateTime({from_s:UInt32} + 900 * (number % {windows:UInt64}), 'UTC') AS window,
    {run_id:UInt64},
    concat(lower(hex(trace)), '-', lower(hex(span))),
    concat('tenant-', toString(intDiv(number, {windows:UInt64}) % {tenants:UInt64})),
    'gateway',
    concat('model-', toString(intDiv(number, {windows:UInt64} * {tenants:UInt64}) % {models:UInt64})),
    sipHash128('trace', number) AS trace,
    reinterpretAsFixedString(sipHash64('span', number)) AS span,
    fromUnixTimestamp64Nano(toInt64(toUnixTimestamp(window)) * 1000000000 + toInt64(sipHash64('start', number) % 900000000000), 'UTC') AS started,
    fromUnixTimestamp64Nano(toUnixTimestamp64Nano(started) + toInt64(arraySum(stage_durations)), 'UTC'),
    arraySum(stage_durations),
    arraySum(arraySlice(stage_durations, 1, 7)),
    toUInt64(15000000 + sipHash64('tpot', number) % 40000000),
    stage_durations[5],
    1,
    1,
    200 + sipHash64('input', number) % 8000 AS input,
    20 + sipHash64('output', number) % 800 AS output,
    input - hit,
    intDiv(input * (sipHash64('hit', number) % 100), 100) AS hit,
    output,
    'engine',
    'reported',
    output,
    output,
    if(number % 10 = 0, 'assumed', 'confirmed'),
    if(number % 12 = 0, 0, output),
    if(number % 12 = 0, 'late', 'useful'),
    1,
    toUInt8(number % 12 != 0),
    1,
    CAST((['gateway', 'auth', 'tokenize', 'route', 'schedule', 'kv_cache', 'prefill', 'decode', 'stream', 'settle', 'other'], stage_durations),
        'Map(LowCardinality(String), UInt64)'),
    CAST((['gateway', 'auth', 'tokenize', 'route', 'schedule', 'kv_cache', 'prefill', 'decode', 'stream', 'settle', 'other'], arrayMap(d -> 'span', stage_durations)),
        'Map(LowCardinality(String), LowCardinality(String))')
FROM (
    SELECT
        number,
        arrayMap(
            (scale, stage) -> toUInt64(scale * exp(2 * (sipHash64(stage, number) % 1000) / 1000)),
            [400000, 200000, 900000, 300000, 20000000, 1500000, 90000000, 4000000000, 2000000, 150000, 1000000],
            range(11)
        ) AS stage_durations
    FROM numbers({requests:UInt64})
)
