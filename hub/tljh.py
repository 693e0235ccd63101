"""The course on The Littlest JupyterHub: docs/hub.md.

hub/tljh.sh puts this file into /opt/tljh/config/jupyterhub_config.d/; after a change there,
`tljh-config reload`.

What hub/values.yaml and hub/grading.yaml are for a cluster: the first page, the newest notebooks at
each start, the learner's view, and Formgrader for who teaches.
"""

c = get_config()  # noqa: F821

# HERE: names on the hub. The teacher's server has Formgrader, and the graders may open it.
TEACHER = "teacher"
GRADERS: list[str] = []
# HERE: what learners clone, "" for the course's own repository, which has all answers. Where points
# count: a copy without answers (docs/graded_class.md), and what the teacher clones to grade with.
REPOSITORY = ""
TEACHER_REPOSITORY = ""

COURSE = "/srv/course"

# Before TLJH's own environment.
c.SystemdSpawner.extra_paths.prepend(["/opt/gpu-course/bin"])
c.Spawner.cmd = ["/bin/sh", f"{COURSE}/hub/tljh_start.sh"]
c.Spawner.default_url = "/lab/tree/gpu-course/welcome.ipynb"
# A first start fetches the notebooks, and systemd calls a server started before it answers.
c.Spawner.start_timeout = c.Spawner.http_timeout = 600
c.Spawner.environment = {
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "COURSE_REPOSITORY": lambda spawner: (
        TEACHER_REPOSITORY if spawner.user.name == TEACHER else REPOSITORY
    ),
    "JUPYTER_CONFIG_PATH": lambda spawner: (
        f"{COURSE}/hub/" + ("teacher" if spawner.user.name == TEACHER else "learner")
    ),
}
c.JupyterHub.load_groups = {"graders": {"users": GRADERS}}
c.JupyterHub.load_roles = [
    {
        "name": "graders",
        "groups": ["graders"],
        "scopes": [f"{scope}!user={TEACHER}" for scope in ("access:servers", "servers")],
    }
]
