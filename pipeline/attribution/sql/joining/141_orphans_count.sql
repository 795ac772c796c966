-- Orphans, and those of them that have a parent, stored or not.
SELECT count(), countIf(parent_span_id != toFixedString('', 8)) FROM work_orphans
