INSERT INTO attempts (
    window_from, run_id, request_id, attempt_id, attempt_no, tenant, tenant_source, model, started_at, ended_at, input_tokens, output_tokens,
    input_uncached_tokens, input_cache_read_tokens, output_text_tokens, usage_source, usage_state, generated_tokens, delivered_tokens,
    delivery, outcome, replica
)
SELECT
    window_from, run_id, request_id, request_id, 1, tenant, tenant_source, model, started_at, ended_at, input_tokens, output_tokens,
    input_uncached_tokens, input_cache_read_tokens, output_text_tokens, usage_source, usage_state, generated_tokens, delivered_tokens,
    delivery, outcome, concat('replica-', toString(sipHash64(request_id) % 64))
FROM requests
WHERE run_id = {run_id:UInt64}
