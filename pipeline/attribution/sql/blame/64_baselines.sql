INSERT INTO baselines SELECT * FROM work_baselines
