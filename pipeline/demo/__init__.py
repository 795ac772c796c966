"""`tokenpath demo`: the whole main job, checked against the truth."""
