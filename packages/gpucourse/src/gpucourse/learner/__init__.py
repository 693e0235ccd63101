"""What a learner has done: records, map, saved work and earlier versions."""
