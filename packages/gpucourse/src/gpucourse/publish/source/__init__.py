"""Sources in course/: their cells, links, questions and translations."""
