-- Requests of windows before the run's may still spend money in it: what they are blamed on, the run of their own window has said.
INSERT INTO work_blames
SELECT b.*
FROM blames AS b
INNER JOIN current_runs AS c ON b.window_from = c.window_from AND b.run_id = c.run_id
WHERE b.cause = 'slo'
    AND b.window_from >= toDateTime(intDiv({from_ns:Int64} - {max_attempt_ns:Int64} - {window_ns:Int64}, 1000000000), 'UTC')
    AND b.window_from < toDateTime(intDiv({from_ns:Int64}, 1000000000), 'UTC')
    AND b.request_id IN (SELECT request_id FROM work_requests WHERE window_from < toDateTime(intDiv({from_ns:Int64}, 1000000000), 'UTC'))
