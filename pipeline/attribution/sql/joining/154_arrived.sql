INSERT INTO work_spans SELECT * FROM work_moved
