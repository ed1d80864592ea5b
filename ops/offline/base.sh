#!/usr/bin/env bash
# Makes the base image of the cluster from Debian's packages, where no registry can be reached.
#
#   ops/offline/base.sh [IMAGE]      default tocsin-base:bookworm; does nothing when it exists
#
# Needs mmdebstrap and a Docker engine (DOCKER_HOST is heard).
set -euo pipefail
image=${1:-tocsin-base:bookworm}
docker image inspect "$image" >/dev/null 2>&1 && exit 0
command -v mmdebstrap >/dev/null || {
  echo "ops/offline/base.sh: mmdebstrap is missing; run: ops/services/install.sh mmdebstrap" >&2
  exit 1
}
mmdebstrap --quiet --variant=minbase \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' bookworm - | docker import - "$image" >/dev/null
echo "made $image"
