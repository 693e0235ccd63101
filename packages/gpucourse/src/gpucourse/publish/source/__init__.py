"""The sources in course/: their cells, links, questions and translations."""
