"""Many submissions: course directories, workers, clusters, reports."""
