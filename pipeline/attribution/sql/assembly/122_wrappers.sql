-- Pass `wrapper`: inference spans around another of their own layer. Usage counts at leaf spans within a layer.
INSERT INTO work_links (pass, trace_id, span_id, state)
WITH
    calls AS (SELECT trace_id, span_id, layer FROM work_nodes WHERE role = 'inference'),
    legs AS (SELECT trace_id, span_id, at FROM work_links WHERE pass = 'leg')
SELECT DISTINCT 'wrapper', n.trace_id, n.at, 'found'
FROM (SELECT trace_id, span_id, at FROM work_links WHERE pass = 'nest') AS n
INNER JOIN calls AS inner ON inner.trace_id = n.trace_id AND inner.span_id = n.span_id
INNER JOIN calls AS around ON around.trace_id = n.trace_id AND around.span_id = n.at
LEFT ANY JOIN legs AS one ON one.trace_id = n.trace_id AND one.span_id = n.span_id
LEFT ANY JOIN legs AS other ON other.trace_id = n.trace_id AND other.span_id = n.at
-- Legs of one inference are beside each other, whatever their parents say.
WHERE inner.layer = around.layer AND (one.at = toFixedString('', 8) OR one.at != other.at)
