-- Spans that no request shows. Which source they are of, the run did not keep.
SELECT toString(l.principal) AS principal, toString(l.reason) AS reason, sum(l.spans) AS spans
FROM left_out AS l
WHERE (l.window_from, l.run_id) IN (SELECT window_from, run_id FROM current_runs WHERE window_from < {to:DateTime('UTC')} AND window_to > {from:DateTime('UTC')})
GROUP BY principal, reason
ORDER BY principal, reason
