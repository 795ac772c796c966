-- Attempts that only a hint shows (LiteLLM picks a deployment, but writes no span of the call): without usage.
INSERT INTO work_drafts (
    trace_id, root, attempt, hint, foreign, model, provider, started_ns, ended_ns, http_status, error_type, usage_source
)
SELECT
    trace_id,
    root,
    hint.span_id,
    hint.span_id,
    0,
    hint.fields['model'],
    hint.fields['provider'],
    hint.started_ns,
    hint.ended_ns,
    toUInt16OrNull(hint.fields['http_status']),
    hint.fields['error_type'],
    'none'
FROM work_stages
ARRAY JOIN hints AS hint
WHERE (trace_id, root, hint.span_id) NOT IN (SELECT trace_id, root, hint FROM work_drafts)
