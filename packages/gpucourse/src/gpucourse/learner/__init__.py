"""Progress of a learner: records, map, saved work and earlier versions."""
