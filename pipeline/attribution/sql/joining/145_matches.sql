-- Spans further out that hold an orphan's id within their interval and do not speak of another model. Only the platform's spans.
-- The outer one must have begun before the inner one and not have ended before that, give or take `skew_ns`.
INSERT INTO work_matches (trace_id, span_id, layer, form, to_trace, to_span, to_request, around, crowded)
WITH
    wanted AS (
        SELECT trace_id, span_id, layer, started_ns, ended_ns, models, one.1 AS form, one.2 AS id
        FROM work_orphans
        ARRAY JOIN ids AS one
        WHERE has({orphans:Array(String)}, toString(layer))
            AND ({by_key:UInt8} = 0 OR startsWith(id, 'key '))
            AND (trace_id, span_id) NOT IN (SELECT trace_id, span_id FROM work_adoptions)
    ),
    holders AS (
        SELECT
            trace_id,
            span_id,
            role = 'request' AS is_request,
            started_ns,
            -- A span without an end is still open.
            coalesce(ended_ns, started_ns + {max_attempt_ns:Int64}) AS ended_ns,
            arrayDistinct(arrayMap(model -> lower(splitByChar('/', model)[-1]), arrayFilter((text, kind) -> bitTest(kind, 2), texts, kinds))) AS models,
            arrayJoin(arrayDistinct(arrayConcat(
                arrayFilter((text, kind) -> bitTest(kind, 0), texts, kinds) AS names,
                arrayMap(text -> replaceRegexpOne(text, '^(chatcmpl|cmpl)-', ''), names),
                arrayMap(text -> concat('key ', text), arrayFilter((text, kind) -> bitTest(kind, 1), texts, kinds))
            ))) AS id
        FROM (
            SELECT
                trace_id, span_id, role, started_ns, ended_ns, texts,
                arrayMap(
                    (slot, text) -> if(
                        text IN ('', '-', 'null'),
                        toUInt8(0),
                        transform(bitShiftLeft(toUInt64(rule), 32) + slot, {id_slots:Array(UInt64)}, {id_kinds:Array(UInt8)}, toUInt8(0))
                    ),
                    slots, texts
                ) AS kinds
            FROM work_spans
            WHERE principal = 'platform' AND notEmpty(slots)
                AND (
                    (role = 'inference' AND transform(rule, {rules:Array(UInt32)}, {rule_layers:Array(Int8)}, toInt8(0)) = {holder_layer:Int8})
                    OR (role = 'request' AND {requests:UInt8} = 1)
                )
                AND ({records:UInt8} = 1 OR NOT has({record_rules:Array(UInt32)}, rule))
        )
        WHERE id IN (SELECT id FROM wanted)
    ),
    -- Of an id that too many hold, one is enough to say so.
    known AS (
        SELECT *, crowd > {holders_max:UInt32} AS crowded
        FROM (
            SELECT *, row_number() OVER (PARTITION BY id ORDER BY trace_id, span_id) AS place, count() OVER (PARTITION BY id) AS crowd
            FROM holders
        )
        WHERE crowd <= {holders_max:UInt32} OR place = 1
    )
SELECT trace_id, span_id, layer, form, to_trace, to_span, is_request, begins_ns <= inner_ns AND inner_ns <= ends_ns, crowded
FROM (
    SELECT
        w.trace_id AS trace_id, w.span_id AS span_id, w.layer AS layer, w.form AS form, h.trace_id AS to_trace, h.span_id AS to_span,
        h.is_request AS is_request, h.crowded AS crowded,
        if(layer = 'client', h.started_ns, w.started_ns) AS inner_ns,
        if(layer = 'client', w.started_ns, h.started_ns) AS begins_ns,
        if(layer = 'client', w.ended_ns, h.ended_ns) AS ends_ns,
        empty(w.models) OR empty(h.models) OR hasAny(w.models, h.models) AS same_model,
        -- Two workers of one inference: the later one looks for the earlier one.
        {by_key:UInt8} = 0 OR (h.started_ns, h.trace_id, h.span_id) < (w.started_ns, w.trace_id, w.span_id) AS may
    FROM wanted AS w
    INNER JOIN known AS h ON h.id = w.id
    WHERE (to_trace, to_span) != (trace_id, span_id)
)
WHERE crowded OR (may AND same_model AND begins_ns - {skew_ns:Int64} <= inner_ns AND inner_ns <= ends_ns + {skew_ns:Int64})
