"""nbgrader on a hub, for everybody: lies in /etc/jupyter of the learners' and teachers' servers.

A teacher's course directory is the folder grading/ of the course: its own nbgrader_config.py, and
~/.jupyter/nbgrader_config.py for formgrader, come on top (docs/hub.md).
"""

c = get_config()  # noqa: F821

c.CourseDirectory.course_id = "gpucourse"
# One folder that all servers see and all users may write to (mode 777; nbgrader checks it).
c.Exchange.root = "/srv/nbgrader/exchange"
