#!/bin/sh
# What The Littlest JupyterHub is told of the course, and where work is handed in. Run by hub/tljh.sh,
# and by lab/trials/tljh.py.
set -e
course="$1" environment="$2"
install -D -m 644 -t "$environment/etc/jupyter" \
  "$course/binder/jupyter_server_config.json" "$course/hub/nbgrader_config.py"
mkdir -p /srv/nbgrader/exchange
chmod ugo+rwx /srv/nbgrader/exchange
# Names are yours to change in it: what is there stays.
file=/opt/tljh/config/jupyterhub_config.d/gpucourse.py
[ -e "$file" ] || install -D -m 600 "$course/hub/tljh.py" "$file"
