#!/usr/bin/env bash
# Installs the system packages that the tests and the local cluster need, on Debian and Ubuntu.
#
#   ops/services/install.sh              RabbitMQ, ZooKeeper, Redis, PgBouncer, faketime, Docker, busybox
#   ops/services/install.sh PACKAGE...   these packages instead
#
# Installs only what is missing and does nothing when nothing is. No service is started: a policy-rc.d file denies
# it for the time of the installation, unless the machine already has a policy of its own. The tests start
# private instances; a service that runs already is left alone.
set -euo pipefail

packages=("$@")
[ ${#packages[@]} -gt 0 ] || packages=(rabbitmq-server zookeeper redis-server pgbouncer faketime docker.io busybox-static)
policy=/usr/sbin/policy-rc.d

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "ops/services/install.sh: this system has no apt; install these yourself: ${packages[*]}" >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "ops/services/install.sh: run as root, or install sudo; missing: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

log=$(mktemp)
own_policy=
finish() {
  [ -z "$own_policy" ] || "${as_root[@]}" rm -f "$policy"
  rm -f "$log"
}
trap finish EXIT

if [ ! -e "$policy" ]; then
  own_policy=yes
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
  "${as_root[@]}" chmod 755 "$policy"
fi

apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get --quiet --yes --option DPkg::Lock::Timeout=300 "$@" >>"$log" 2>&1 </dev/null
}

echo "installing ${missing[*]}"
if ! { apt update && apt install --no-install-recommends "${missing[@]}"; }; then
  cat "$log" >&2
  echo "ops/services/install.sh: could not install ${missing[*]}; the reason is above" >&2
  exit 1
fi
