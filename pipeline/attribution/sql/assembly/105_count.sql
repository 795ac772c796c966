SELECT count() FROM work_spans
