-- Requests to blame on a stage: those that missed an objective, and of each window, tenant, model and measure the slowest hundredth: the
-- first ceil(n / 100) by (value descending, id). The cut is found among numbers alone; ids are sorted only of what reaches it.
INSERT INTO work_suspects
WITH cuts AS (
    SELECT
        window_from AS cut_window,
        tenant AS cut_tenant,
        model AS cut_model,
        [intDiv(count(ttft_ns) + 99, 100), intDiv(count(tpot_ns) + 99, 100), intDiv(count(e2e_ns) + 99, 100)] AS places,
        [
            arrayReverseSort(groupArray(ttft_ns))[places[1]],
            arrayReverseSort(groupArray(tpot_ns))[places[2]],
            arrayReverseSort(groupArray(e2e_ns))[places[3]]
        ] AS cut_ns
    FROM work_requests
    WHERE outcome != 'rejected'
        AND window_from >= toDateTime(intDiv({from_ns:Int64}, 1000000000), 'UTC') AND window_from < toDateTime(intDiv({to_ns:Int64}, 1000000000), 'UTC')
    GROUP BY window_from, tenant, model
)
SELECT request_id, 'slo', toString(missed_slo)
FROM work_requests
WHERE missed_slo != 'none'
    AND window_from >= toDateTime(intDiv({from_ns:Int64}, 1000000000), 'UTC') AND window_from < toDateTime(intDiv({to_ns:Int64}, 1000000000), 'UTC')
UNION ALL
SELECT request_id, 'tail', measure
FROM (
    SELECT
        request_id, measure, place_max,
        row_number() OVER (PARTITION BY window_from, tenant, model, measure ORDER BY value_ns DESC, request_id) AS place
    FROM (
        SELECT r.window_from AS window_from, r.tenant AS tenant, r.model AS model, r.request_id AS request_id, measure, value_ns, place_max
        FROM (SELECT window_from, tenant, model, request_id, ttft_ns, tpot_ns, e2e_ns FROM work_requests WHERE outcome != 'rejected') AS r
        INNER JOIN cuts AS c ON r.window_from = c.cut_window AND r.tenant = c.cut_tenant AND r.model = c.cut_model
        ARRAY JOIN ['ttft', 'tpot', 'e2e'] AS measure, [r.ttft_ns, r.tpot_ns, r.e2e_ns] AS value_ns, c.places AS place_max, c.cut_ns AS least_ns
        WHERE value_ns >= least_ns
    )
)
WHERE place <= place_max
