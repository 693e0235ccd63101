"""nbgrader on a hub, for everybody: hub/set_up.sh puts it into /etc/jupyter of the image.

Teachers have hub/teacher/ besides, and grading/nbgrader_config.py in the course directory.
"""

import os
import pwd
from pathlib import Path

c = get_config()  # noqa: F821

c.CourseDirectory.course_id = "gpucourse"
# One folder that all servers see and all users may write to.
c.Exchange.root = "/srv/nbgrader/exchange"
# What nbgitpuller brought along *is* what the teacher releases: Submit takes it from there.
c.Exchange.assignment_dir = str(Path.home() / "gpu-course" / "projects")
# The image knows everybody as jovyan; JUPYTERHUB_USER, which nbgrader takes instead, is a name that
# no file belongs to. On one machine (hub/tljh.py) people are users of the system, and collect says
# whose work came under another's name.
c.ExchangeCollect.check_owner = pwd.getpwuid(os.getuid()).pw_name != "jovyan"
