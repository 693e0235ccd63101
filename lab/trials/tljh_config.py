"""Configuration of JupyterHub in lab/trials/tljh.py.

It is The Littlest JupyterHub's own, which reads hub/tljh.py, with another proxy and another login.
"""

import os
import secrets
from pathlib import Path

import tljh
import yaml

c = get_config()  # noqa: F821
TRIAL = yaml.safe_load(Path(os.environ["HUB_TRIAL"]).read_text())

load_subconfig(str(Path(tljh.__file__).with_name("jupyterhub_config.py")))  # noqa: F821

c.JupyterHub.bind_url = TRIAL["address"]
c.JupyterHub.hub_port = TRIAL["hub port"]
c.JupyterHub.proxy_class = "configurable-http-proxy"
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{TRIAL['proxy port']}"
c.ConfigurableHTTPProxy.command = TRIAL["proxy"]
c.JupyterHub.db_url = "sqlite:///" + TRIAL["database"]
c.JupyterHub.cookie_secret = secrets.token_bytes(32)
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = TRIAL["password"]
c.Authenticator.allowed_users = set(TRIAL["users"])
c.JupyterHub.services = [{"name": "trial", "api_token": TRIAL["token"], "admin": True}]
