-- One step of pointer jumping: every open pointer takes over the pointer of the span at which it stands, so its reach doubles.
-- A span that is not stored ends the search: an absent remote parent is no root.
INSERT INTO work_links (pass, step, trace_id, span_id, viewer, at, state, stage, within)
SELECT
    {pass:String},
    {step:UInt8} + 1,
    o.trace_id,
    o.span_id,
    o.viewer,
    t.at,
    if(t.state = '', 'nothing', t.state),
    o.stage,
    multiIf(o.within != 0, o.within, t.stage != 0, t.stage, t.within)
FROM (SELECT * FROM work_links WHERE pass = {pass:String} AND step = {step:UInt8} AND state = 'open') AS o
LEFT ANY JOIN (
    SELECT trace_id, span_id, viewer, at, state, stage, within
    FROM work_links
    WHERE pass = {pass:String}
        AND (state != 'open' OR step = {step:UInt8})
        AND (trace_id, span_id, viewer) IN (
            SELECT trace_id, at, viewer
            FROM work_links
            WHERE pass = {pass:String} AND step = {step:UInt8} AND state = 'open'
        )
) AS t ON t.trace_id = o.trace_id AND t.span_id = o.at AND t.viewer = o.viewer
