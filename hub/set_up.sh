#!/bin/sh
# What the image has outside Python: settings of Jupyter and nbgrader, and numbers for users.
# Run by hub/Dockerfile, and by lab/trials/hub.py.
set -e
course="${1:-/srv/course}"
mkdir -p /etc/jupyter
cp "$course/binder/jupyter_server_config.json" "$course/hub/nbgrader_config.py" /etc/jupyter/
# With hub/grading.yaml each user has a number, so that the exchange keeps them apart. All are called
# jovyan, which makes nbgrader take their name on the hub.
awk 'BEGIN { for (n = 20001; n <= 24000; n++)
               print "jovyan:x:" n ":100::/home/jovyan:/bin/bash" }' >> /etc/passwd
