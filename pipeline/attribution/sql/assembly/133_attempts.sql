-- Attempts with what became of them. The request's answer is its last attempt that ended well; earlier ones that did too are superseded.
INSERT INTO work_attempts
WITH
    numbered AS (
        SELECT
            trace_id,
            root,
            attempt,
            hint = attempt AS hinted,
            failed,
            row_number() OVER (PARTITION BY trace_id, root ORDER BY started_ns, attempt) AS attempt_no,
            count() OVER (PARTITION BY trace_id, root) AS attempts
        FROM work_drafts
    ),
    judged AS (
        SELECT
            *,
            -- A hint without a call failed if another attempt follows; the last one as its request's count of failures says.
            sum(if(hinted, attempt_no < attempts, failed)) OVER (PARTITION BY trace_id, root) AS certain_failures
        FROM numbered
    ),
    ended AS (
        SELECT
            j.trace_id AS trace_id,
            j.root AS root,
            j.attempt AS attempt,
            j.attempt_no AS attempt_no,
            r.request_id AS request_id,
            r.window_from AS window_from,
            r.tenant AS tenant,
            r.tenant_source AS tenant_source,
            r.task_id AS task_id,
            r.client_request_id AS client_request_id,
            r.outcome AS request_outcome,
            r.delivery AS delivery,
            r.delivered_tokens AS delivered_tokens,
            r.flags AS flags,
            multiIf(j.hinted AND j.attempt_no < j.attempts, 1, j.hinted, r.failed_attempts > j.certain_failures, j.failed) AS failed,
            max(if(failed, 0, j.attempt_no)) OVER (PARTITION BY j.trace_id, j.root) AS good
        FROM judged AS j
        INNER JOIN (SELECT * FROM work_requests WHERE cityHash64(trace_id) % {chunks:UInt32} = {chunk:UInt32}) AS r ON r.trace_id = j.trace_id AND r.root_span_id = j.root
    )
SELECT
    e.window_from,
    {run_id:UInt64},
    e.request_id,
    concat(lower(hex(d.trace_id)), '-', lower(hex(d.attempt))),
    e.attempt_no,
    e.tenant,
    e.tenant_source,
    if(d.model = '', 'unknown', d.model),
    if(d.response_model = '', 'unknown', d.response_model),
    if(d.provider = '', 'unknown', d.provider),
    coalesce(d.task_id, e.task_id),
    coalesce(d.client_request_id, e.client_request_id),
    d.response_id,
    fromUnixTimestamp64Nano(d.started_ns, 'UTC'),
    fromUnixTimestamp64Nano(d.ended_ns, 'UTC'),
    d.streamed,
    d.http_status,
    d.error_type,
    d.finish_reason,
    d.input_tokens,
    d.output_tokens,
    d.input_tokens - coalesce(d.cache_read_tokens, 0) - coalesce(d.cache_write_tokens, 0),
    d.cache_read_tokens,
    d.cache_write_tokens,
    d.output_tokens - coalesce(d.reasoning_tokens, 0),
    d.reasoning_tokens,
    map(),
    d.raw_usage,
    d.usage_source,
    multiIf(isNotNull(d.input_tokens) OR isNotNull(d.output_tokens), 'reported', bounded, 'estimated', 'unknown'),
    d.generated_tokens,
    if(e.attempt_no = e.good, e.delivered_tokens, 0),
    if(e.attempt_no = e.good, toString(e.delivery), 'none'),
    multiIf(e.failed = 1, 'failed', e.attempt_no < e.good, 'superseded', toString(e.request_outcome)) AS outcome,
    d.replica,
    arrayMap(l -> (l.1, l.2, fromUnixTimestamp64Nano(l.3, 'UTC'), fromUnixTimestamp64Nano(l.4, 'UTC')), d.legs),
    fromUnixTimestamp64Nano(d.first_scheduled_ns, 'UTC'),
    fromUnixTimestamp64Nano(d.first_token_ns, 'UTC'),
    fromUnixTimestamp64Nano(d.last_token_ns, 'UTC'),
    d.recompute_tokens,
    d.rejected_draft_tokens,
    d.expected_hit_tokens,
    d.best_hit_tokens,
    arraySort(arrayDistinct(arrayConcat(d.flags, arrayFilter(f -> f = 'unlisted' OR (f = 'no_engine_span' AND outcome = 'aborted'), e.flags)))),
    if(outcome = 'aborted' AND isNull(d.output_tokens), coalesce(e.delivered_tokens, 0), NULL) AS least_tokens,
    if((isNotNull(least_tokens) AND b.most_tokens > 0) AS bounded, greatest(assumeNotNull(least_tokens), b.most_tokens), NULL)
FROM ended AS e
INNER JOIN work_drafts AS d ON d.trace_id = e.trace_id AND d.root = e.root AND d.attempt = e.attempt
LEFT ANY JOIN work_bounds AS b ON b.trace_id = e.trace_id AND b.root = e.root AND b.attempt = e.attempt
