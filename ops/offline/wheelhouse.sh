#!/usr/bin/env bash
# Fills compose/tocsin/wheelhouse with the wheels of tocsin, Flower and all they need.
#
#   PYTHON=python3.11 ops/offline/wheelhouse.sh
#
# Done outside the container, with this machine's pip and its settings, so that the image needs no index. The
# interpreter must be of the version that the base image has (Debian 12: 3.11).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
place=compose/tocsin/wheelhouse
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || {
  echo "ops/offline/wheelhouse.sh: the image has Python 3.11; say which one to use: PYTHON=python3.11" >&2
  exit 1
}
# redis wants async-timeout on Debian's 3.11.2 and not on a newer 3.11, which may be the one that runs here.
mkdir -p "$place"
rm -f "$place"/tocsin-*.whl
"$python" -m pip wheel --quiet --quiet --disable-pip-version-check --find-links "$place" --wheel-dir "$place" \
  . 'flower>=2.0.1,<3' 'async-timeout>=4.0.3'
