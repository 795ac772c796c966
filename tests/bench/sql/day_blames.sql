-- A quarter of the requests is blamed: one in twenty of these as the tail, the others for a missed objective.
INSERT INTO blames (window_from, run_id, request_id, tenant, model, cause, measure, stage, excess_ns, excesses, compared)
SELECT
    window_from, run_id, request_id, tenant, model, if(intDiv(number, 4) % 20 = 0, 'tail', 'slo') AS cause, ['ttft', 'tpot', 'e2e'][intDiv(number, 8) % 3 + 1],
    ['schedule', 'prefill', 'decode', 'other'][intDiv(number, 16) % 4 + 1] AS stage, 1000000 + number % 1000000000 AS excess_ns, map(stage, toUInt64(excess_ns)), 5
FROM (SELECT window_from, run_id, request_id, tenant, model, intHash64(sipHash64(request_id)) AS number FROM requests WHERE run_id = {run_id:UInt64})
WHERE number % 4 = 0
