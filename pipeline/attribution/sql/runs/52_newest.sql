-- The newest run id and the newest time of recording (unix microseconds) that any run has; 0 without runs.
SELECT max(run_id) AS run_id, max(toUnixTimestamp64Micro(recorded_at)) AS recorded_us FROM runs
