-- Scratch of the one running attribution job: spans on their way to another trace.
CREATE TABLE IF NOT EXISTS work_moved AS work_spans
