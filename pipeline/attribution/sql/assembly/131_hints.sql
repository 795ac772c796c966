-- Attempts that only a hint shows (LiteLLM picks a deployment, but writes no span of the call): without usage.
INSERT INTO work_drafts (trace_id, root, attempt, hint, model, provider, started_ns, ended_ns, http_status, error_type, usage_source)
SELECT
    trace_id,
    root,
    hint.2,
    hint.2,
    hint.5['model'],
    hint.5['provider'],
    hint.1,
    hint.3,
    toUInt16OrNull(hint.5['http_status']),
    hint.5['error_type'],
    'none'
FROM work_stages
ARRAY JOIN hints AS hint
WHERE (trace_id, root, hint.2) NOT IN (SELECT trace_id, root, hint FROM work_drafts)
