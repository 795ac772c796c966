-- Platform spans that carry an id and have no request or call of the platform directly above: of the layers client, router, engine and
-- cache, stage spans at the top of a trace, and a gateway's own records of requests (layer `none`: they may tell of one with a trace). Most spans hang under their gateway, so most runs find next to none.
-- An id in the forms in which a gateway may know it: as it is or without the prefix of the API, then without one or two suffixes
-- (`-<choice>`, `-<8 hex>`). An id that the stack made for one inference (`join_key`) meets only such ids.
INSERT INTO work_orphans (trace_id, span_id, parent_span_id, layer, started_ns, ended_ns, models, ids)
WITH
    nodes AS (SELECT trace_id, span_id FROM work_spans WHERE role IN ('request', 'inference') AND principal = 'platform'),
    '-([0-9]{1,3}|[0-9a-f]{8})$' AS suffix
SELECT
    trace_id,
    span_id,
    parent_span_id,
    layer,
    started_ns,
    coalesce(ended_ns, started_ns),
    arrayDistinct(arrayMap(model -> lower(splitByChar('/', model)[-1]), arrayFilter((text, kind) -> bitTest(kind, 2), said, kinds))),
    arrayDistinct(arrayConcat(
        arrayMap(text -> (0, text), names),
        arrayMap(text -> (0, text), bare),
        arrayMap(text -> (1, text), shorter),
        arrayMap(text -> (2, text), shortest),
        arrayMap(text -> (0, concat('key ', text)), arrayFilter((text, kind) -> bitTest(kind, 1), said, kinds))
    )) AS ids
FROM (
    SELECT
        * EXCEPT (slots, texts),
        arrayMap(slot -> transform(bitShiftLeft(toUInt64(rule), 32) + slot, {id_slots:Array(UInt64)}, {id_kinds:Array(UInt8)}, toUInt8(0)), slots) AS slot_kinds,
        arrayFilter((text, kind) -> kind > 0 AND text NOT IN ('', '-', 'null'), texts, slot_kinds) AS said,
        arrayFilter((kind, text) -> kind > 0 AND text NOT IN ('', '-', 'null'), slot_kinds, texts) AS kinds,
        arrayFilter((text, kind) -> bitTest(kind, 0), said, kinds) AS names,
        arrayMap(text -> replaceRegexpOne(text, '^(chatcmpl|cmpl)-', ''), names) AS bare,
        arrayMap(text -> replaceRegexpOne(text, suffix, ''), arrayFilter(text -> match(text, concat('.', suffix)), bare)) AS shorter,
        arrayMap(text -> replaceRegexpOne(text, suffix, ''), arrayFilter(text -> match(text, concat('.', suffix)), shorter)) AS shortest
    FROM (
        SELECT
            trace_id, span_id, parent_span_id, rule, started_ns, ended_ns, slots, texts,
            multiIf(role = 'stage', toInt8(5), role = 'request', toInt8(0), transform(rule, {rules:Array(UInt32)}, {rule_layers:Array(Int8)}, toInt8(2))) AS layer
        FROM work_spans
        WHERE principal = 'platform' AND notEmpty(slots)
            AND (
                ((role = 'inference' OR (role = 'request' AND has({record_rules:Array(UInt32)}, rule))) AND (trace_id, parent_span_id) NOT IN nodes)
                OR (role = 'stage' AND parent_span_id = toFixedString('', 8))
            )
    )
    WHERE layer IN (0, 1, 3, 4, 5)
)
WHERE notEmpty(ids)
