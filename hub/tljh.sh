#!/bin/sh
# The course on a machine with The Littlest JupyterHub, as docs/hub.md says. As root, with a clone of
# the repository in /srv/course; again after `git -C /srv/course pull`.
set -e
course="${1:-/srv/course}"
# Python packages of the course's own, beside TLJH's: conda's stay as they are.
environment=/opt/gpu-course
[ -x "$environment/bin/python" ] || /opt/tljh/user/bin/python -m venv "$environment"
pip="$environment/bin/pip install --no-cache-dir"
$pip --require-hashes -r "$course/binder/requirements.txt"
$pip --require-hashes -r "$course/requirements/hub.txt"
$pip --no-deps --force-reinstall "$course/packages/virtualgpu" "$course/packages/gpustandins" \
  "$course/packages/gpucourse"
# Learners' servers read the settings; the rest of the checkout has the answers.
find "$course" -mindepth 1 -maxdepth 1 ! -name hub ! -name binder -exec chmod -R go-rwx {} +
sh "$course/hub/tljh_settings.sh" "$course" "$environment"
tljh-config reload
