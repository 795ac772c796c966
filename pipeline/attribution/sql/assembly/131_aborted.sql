-- A request whose client left and of whose call nobody wrote a span (vLLM writes none for an aborted one): an attempt without usage.
-- Not where the gateway itself refused it, or failed.
INSERT INTO work_drafts (trace_id, root, attempt, model, task_id, client_request_id, started_ns, ended_ns, usage_source)
SELECT
    trace_id,
    span_id,
    span_id,
    fields['model'],
    nullIf(fields['task_id'], ''),
    nullIf(fields['client_request_id'], ''),
    started_ns,
    ended_ns,
    'none'
FROM work_facts
WHERE role = 'request'
    AND fields['blocked'] != '1'
    AND (toUInt64OrZero(fields['http_status']) < 400 OR fields['http_status'] = '499')
    AND (
        fields['disconnected'] = '1'
        OR fields['http_status'] = '499'
        OR (trace_id, span_id) IN (SELECT trace_id, root FROM work_stages WHERE arrayExists(f -> f.1 = {stream:UInt8} AND f.5['disconnected'] = '1', facts))
    )
    AND (trace_id, span_id) NOT IN (SELECT trace_id, root FROM work_drafts)
