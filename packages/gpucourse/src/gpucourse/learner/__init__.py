"""A learner's progress: records, course map, saved work and earlier notebook versions."""
