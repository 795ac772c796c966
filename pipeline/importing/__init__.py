"""`tokenpath import`: files of per-request records into the log, as spans. What a row says is the collectors' business."""
