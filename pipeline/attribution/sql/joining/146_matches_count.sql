SELECT count() FROM work_matches
