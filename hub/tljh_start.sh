#!/bin/sh
# A server on The Littlest JupyterHub: the newest notebooks, if they can be had, then Jupyter.
repository="$1"
shift
gitpuller "$repository" main gpu-course || true
exec jupyterhub-singleuser "$@"
