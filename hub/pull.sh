#!/bin/sh
# Brings the course in a learner's home up to date before their server answers: the hook of
# hub/values.yaml, and a part of hub/tljh_start.sh. Both hubs name the repository in COURSE_REPOSITORY;
# where it is empty, it is the course's own. ~/.gpu-course.log has what happened last.
cd "$HOME" || exit 1
log="$HOME/.gpu-course.log"
wanted="${COURSE_REPOSITORY:-$(cat "$(dirname "$0")/repository")}"
found="$(git -C gpu-course config --get remote.origin.url 2>/dev/null)"
# gitpuller would say "Already up to date", and leave what the other repository brought, answers included.
if [ -n "$found" ] && [ "${found%.git}" != "${wanted%.git}" ]; then
  echo "$HOME/gpu-course is a clone of $found, and this hub's course is $wanted." \
    "Nothing in it was changed, and the server does not start. Rename the folder" \
    "(mv gpu-course gpu-course-before), or set COURSE_REPOSITORY to $found." | tee "$log" >&2
  exit 1
fi
# Without a network, people go on with what they have.
if ! gitpuller "$wanted" main gpu-course >"$log" 2>&1; then
  echo "The course was not brought up to date: $wanted could not be pulled." | tee -a "$log" >&2
fi
