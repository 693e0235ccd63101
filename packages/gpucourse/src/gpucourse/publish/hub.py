"""The course on a JupyterHub: ``hub/values.yaml``, ``hub/links.md``, and links for one's own hub.

    python -m gpucourse.publish.hub https://hub.my-university.edu    # the links, to hand out

A link has nbgitpuller clone or update the learner's copy of the course, then opens a notebook in
it. What a learner has changed stays: nbgitpuller merges, and where both changed the same lines it
keeps the learner's.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from urllib.parse import quote, urlencode

from gpucourse.course.checkout import notebook_path
from gpucourse.course.projects import repository_url
from gpucourse.course.registry import Course, Project, load_course
from gpucourse.publish import binder, welcome

#: Stands for the hub's address where there is none.
EXAMPLE = "https://hub.example.org"
#: The folder in a learner's home, whatever a copy of the repository is called: the settings in
#: hub/ name it too.
FOLDER = "gpu-course"
BRANCH = "main"

_LINKS = """\
<!-- {generated} -->
# Links for a JupyterHub

Each clones the course into the learner's home, or brings it up to date, and opens one page of it.
What they have written in their notebooks stays. For your hub:

    python -m gpucourse.publish.hub https://hub.my-university.edu

{table}
"""

_VALUES = """\
# {generated}
# (the text of this file: gpucourse/publish/hub.py)
#
# The course on Zero to JupyterHub, with a profile without a GPU and one with it. Not yet tried on a
# cluster. What to set for yours is marked HERE; docs/hub.md says where the figures come from.
#
#     helm upgrade --install hub jupyterhub --repo https://hub.jupyter.org/helm-chart/ \\
#       --namespace course --create-namespace --values hub/values.yaml --values yours.yaml

hub:
  # Sixty people who press the button in the same minute.
  concurrentSpawnLimit: 64
  # HERE, in a file of your own: hub.config, with who may log in and who is an administrator.

singleuser:
  image:
    # HERE: where you pushed the image of hub/Dockerfile.
    name: registry.example.org/gpu-course
    tag: cpu
  defaultUrl: /lab/tree/{folder}/welcome.ipynb
  # The largest lecture takes 0.9 GB together with the server. A project that is graded in its own
  # kernel takes 1.5 GB, and a second notebook may be open beside it.
  memory:
    guarantee: 1G
    limit: 3G
  # People read more than they run: a quarter of a core each on average, and bursts.
  cpu:
    guarantee: 0.25
    limit: 2
  startTimeout: 600
  storage:
    # Notebooks with pictures, and what JupyterLab keeps of earlier saves.
    capacity: 2Gi
  extraEnv:
    # JAX would take most of a GPU's memory for itself.
    XLA_PYTHON_CLIENT_PREALLOCATE: "false"
  lifecycleHooks:
    postStart:
      exec:
        # The first start has the notebooks; later ones get what is new, and keep what was written.
        # A hook that fails would stop the server: without a network, people go on with what they
        # have.
        command: [sh, -c, "gitpuller {url} {branch} {folder} || true"]
  profileList:
    - display_name: The course
      slug: cpu
      description: Kernels go through the real compilers and run on a virtual GPU.
      default: true
    - display_name: The course, with a GPU
      slug: gpu
      description: One NVIDIA GPU of your own. There are few; the course works without.
      kubespawner_override:
        image: registry.example.org/gpu-course:gpu
        mem_guarantee: 2G
        mem_limit: 8G
        cpu_guarantee: 1
        cpu_limit: 4
        extra_resource_limits:
          nvidia.com/gpu: "1"
        # HERE: the taint that your cluster puts on machines with a GPU.
        tolerations:
          - key: nvidia.com/gpu
            operator: Exists
            effect: NoSchedule

prePuller:
  # An image of 2 GB, or several with a GPU's libraries, must not travel while people wait.
  hook:
    enabled: true
  continuous:
    enabled: true

cull:
  # A server that was not used for an hour is stopped; an idle kernel in it after {idle} minutes.
  enabled: true
  timeout: 3600
  every: 300
"""


def files(root: Path, url: str) -> dict[str, str]:
    """The generated files of ``hub/``: path from the repository's root → text."""
    values = _VALUES.format(generated=binder.GENERATED, url=url, branch=BRANCH,
                            folder=FOLDER, idle=binder.IDLE_MINUTES)
    table = links_table(load_course(root), url, EXAMPLE)
    return {
        "hub/values.yaml": values,
        "hub/links.md": _LINKS.format(generated=binder.GENERATED, table=table),
    }


def link(hub: str, url: str, path: Path, branch: str = BRANCH) -> str:
    """The address on ``hub`` that gets the repository ``url`` and opens ``path`` of it."""
    query = urlencode({
        "repo": url,
        "branch": branch,
        "targetpath": FOLDER,
        "urlpath": f"lab/tree/{FOLDER}/{quote(path.as_posix())}",
    })
    return f"{hub.rstrip('/')}/hub/user-redirect/git-pull?{query}"


def links_table(course: Course, url: str, hub: str, branch: str = BRANCH) -> str:
    """The welcome page and every lesson, each with its link; Markdown."""
    rows = ["| | minutes | |", "|---|---|---|",
            f"| [Welcome]({link(hub, url, welcome.NOTEBOOK, branch)}) | | the map of the course |"]
    for lesson in course.lessons:
        kind = f"project, {lesson.points:g} points" if isinstance(lesson, Project) else "lecture"
        address = link(hub, url, notebook_path(lesson), branch)
        rows.append(f"| [{lesson.title}]({address}) | {lesson.minutes} | {kind} |")
    return "\n".join(rows)


def main() -> None:
    """The command line: the table for one's own hub."""
    parser = argparse.ArgumentParser(prog="python -m gpucourse.publish.hub")
    parser.add_argument("hub", help="its address, as https://hub.my-university.edu")
    parser.add_argument("--repository", help="a copy of the course; default: the course's own")
    parser.add_argument("--branch", default=BRANCH)
    options = parser.parse_args()
    root = Path.cwd()
    url = options.repository or repository_url(root)
    if url is None:
        parser.error("run this in the course's repository, or name one with --repository")
    print(links_table(load_course(root), url, options.hub, options.branch))


if __name__ == "__main__":
    main()
