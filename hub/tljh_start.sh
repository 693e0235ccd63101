#!/bin/sh
# A server on The Littlest JupyterHub: the newest notebooks, if they can be had, then Jupyter.
sh "$(dirname "$0")/pull.sh" || exit 1
exec jupyterhub-singleuser "$@"
