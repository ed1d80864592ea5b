#!/usr/bin/env bash
# Builds the images of the cluster on any Docker engine, with or without a registry.
#
#   ops/offline/images.sh            from Debian's packages alone
#   BASE_IMAGE=debian:bookworm-slim ops/offline/images.sh      from a registry's base image
#
# Beside Debian's mirror it needs the wheels of compose/tocsin/wheelhouse, which it makes first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if [ -z "${BASE_IMAGE:-}" ]; then
  BASE_IMAGE=tocsin-base:bookworm
  ops/offline/base.sh "$BASE_IMAGE"
fi
ops/offline/wheelhouse.sh
# Without BuildKit, which Debian does not ship. The host's network, because an engine's bridge may have no way out.
build() { DOCKER_BUILDKIT=0 docker build --quiet --network host --build-arg "BASE_IMAGE=$BASE_IMAGE" "$@" >/dev/null; }
for server in zookeeper rabbitmq postgres redis prometheus; do
  build --target "$server" --tag "tocsin-$server:dev" compose/servers
done
build --tag tocsin:dev compose/tocsin
