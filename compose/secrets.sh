#!/usr/bin/env bash
# Makes the cluster's secrets in compose/secrets, one a file, unless they are there.
#
# The directory is closed to others; the files can be read by all, because each role has another user in its
# container and sees only the secrets that its service names.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
mkdir -p -m 700 secrets
secret() {
  [ -s "secrets/$1" ] || printf '%s' "$2" > "secrets/$1"
  chmod 444 "secrets/$1"
}
random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
for name in postgres_password rabbitmq_password rabbitmq_cookie signing_key flower_password; do
  secret "$name" "$(random)"
done
postgres=$(cat secrets/postgres_password)
rabbitmq=$(cat secrets/rabbitmq_password)
secret database_url "0-511=postgresql://tocsin:$postgres@postgres-1/tocsin,512-1023=postgresql://tocsin:$postgres@postgres-2/tocsin"
secret broker_url "amqp://tocsin:$rabbitmq@rabbitmq-1//;amqp://tocsin:$rabbitmq@rabbitmq-2//;amqp://tocsin:$rabbitmq@rabbitmq-3//"
secret zookeeper_auth "tocsin:$(random)"
secret flower_basic_auth "tocsin:$(cat secrets/flower_password)"
