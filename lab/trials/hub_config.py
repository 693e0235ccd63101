"""JupyterHub's configuration in lab/trials/hub.py, which reads hub/*.yaml like the chart.

A server is a "pod" made with bubblewrap: it has its own user ID, whose name in /etc/passwd is
jovyan, its own folder as /home/jovyan, and the image's variables. Settings that need Kubernetes
are left out: limits, volumes, profiles and image pulling.
"""

import asyncio
import os
import re
import secrets
import sys
from pathlib import Path
from types import ModuleType

import yaml
from jupyterhub.spawner import LocalProcessSpawner
from traitlets import Any, Dict, Integer
from traitlets.config import LazyConfigValue

sys.path.insert(0, os.environ["HUB_TRIAL_REPOSITORY"])
from lab.trials import hub_place

c = get_config()  # noqa: F821
COURSE, HOMES = Path("/srv/course"), Path("/srv/homes")
TRIAL = yaml.safe_load(Path(os.environ["HUB_TRIAL"]).read_text())


def merged(one: dict, other: dict) -> dict:
    """Merge two values files as Helm does."""
    both = dict(one)
    for key, value in other.items():
        deeper = isinstance(value, dict) and isinstance(one.get(key), dict)
        both[key] = merged(one[key], value) if deeper else value
    return both


values: dict = {}
for text in (COURSE / "hub/values.yaml", COURSE / "hub/grading.yaml"):
    values = merged(values, yaml.safe_load(text.read_text()))
values = merged(values, TRIAL["values"])


def value(path: str, default: object = None) -> object:
    found = values
    for key in path.split("."):
        found = found.get(key, {}) if isinstance(found, dict) else {}
    return found or default


class Pod(LocalProcessSpawner):
    """Spawner of servers as in a container of hub/Dockerfile's image."""

    uid = Any(config=True)
    gid = Integer(config=True)
    lifecycle_hooks = Dict(config=True)

    def make_preexec_fn(self, name):
        return None

    def user_env(self, env):
        image = dict(re.findall(r"^ENV (\w+)=(.*)$", (COURSE / "hub/Dockerfile").read_text(), re.M))
        image["PYTHONPATH"] = str(hub_place.PACKAGES)
        return {**image, **env, "HOME": "/home/jovyan", "USER": "jovyan", "SHELL": "/bin/bash"}

    async def start(self):
        home, uid = HOMES / self.user.name, self.uid(self)
        home.mkdir(mode=0o700, exist_ok=True)
        os.chown(home, uid, self.gid)
        inside = [
            "bwrap",
            "--dev-bind",
            "/",
            "/",
            "--tmpfs",
            "/srv/homes",
            "--bind",
            str(home),
            "/home/jovyan",
            *hub_place.without_checkout(),
            "--chdir",
            "/home/jovyan",
            "setpriv",
            f"--reuid={uid}",
            f"--regid={self.gid}",
            "--clear-groups",
            "--no-new-privs",
        ]
        self.cmd = [*inside, "jupyterhub-singleuser"]
        address = await super().start()
        # Kubernetes sends no request to a pod before this has ended, and stops the pod if it fails.
        hook = self.lifecycle_hooks["postStart"]["exec"]["command"]
        process = await asyncio.create_subprocess_exec(*inside, *hook, env=self.get_env())
        if await process.wait() != 0:
            await self.stop()
            raise RuntimeError("FailedPostStartHook")
        return address


c.KubeSpawner.environment = dict(value("singleuser.extraEnv"))
c.JupyterHub.load_roles = []
chart = ModuleType("z2jh")
chart.get_config = value
sys.modules["z2jh"] = chart
for name, code in sorted(value("hub.extraConfig").items()):
    exec(compile(code, name, "exec"), {"c": c})

c.JupyterHub.spawner_class = Pod
c.Pod.environment = c.KubeSpawner.environment
c.Pod.uid, c.Pod.gid = c.KubeSpawner.uid, c.KubeSpawner.gid
c.Pod.lifecycle_hooks = value("singleuser.lifecycleHooks")
c.Pod.default_url = value("singleuser.defaultUrl")
c.Pod.start_timeout = value("singleuser.startTimeout")
c.Pod.http_timeout = 300
c.JupyterHub.concurrent_spawn_limit = value("hub.concurrentSpawnLimit")
c.JupyterHub.bind_url = TRIAL["address"]
c.JupyterHub.hub_port = TRIAL["hub port"]
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{TRIAL['proxy port']}"
c.ConfigurableHTTPProxy.command = TRIAL["proxy"]
c.JupyterHub.db_url = "sqlite:///" + TRIAL["database"]
c.JupyterHub.cookie_secret = secrets.token_bytes(32)
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = TRIAL["password"]
c.Authenticator.allowed_users = set(TRIAL["users"])
c.JupyterHub.services = [{"name": "trial", "api_token": TRIAL["token"], "admin": True}]
assert not isinstance(c.KubeSpawner.uid, LazyConfigValue)
