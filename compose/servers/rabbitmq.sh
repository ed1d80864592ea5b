#!/bin/bash
# One of three RabbitMQ nodes. RABBIT_PEERS are the host names of all; user and cookie are secrets.
set -euo pipefail
: "${RABBIT_PEERS:?}"
export HOME=/data RABBITMQ_MNESIA_BASE=/data/mnesia RABBITMQ_LOGS=- RABBITMQ_NODENAME=rabbit@$HOSTNAME
export RABBITMQ_CONFIG_FILE=/tmp/rabbitmq RABBITMQ_ENABLED_PLUGINS_FILE=/tmp/enabled_plugins
export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="+S 2:2 +sbwt none"
install -m 600 /run/secrets/rabbitmq_cookie /data/.erlang.cookie
echo '[rabbitmq_management,rabbitmq_prometheus].' > /tmp/enabled_plugins
{
  cat <<CONF
default_user = tocsin
default_pass = $(cat /run/secrets/rabbitmq_password)
loopback_users = none
cluster_formation.peer_discovery_backend = classic_config
cluster_partition_handling = pause_minority
vm_memory_high_watermark.absolute = 300MiB
disk_free_limit.absolute = 100MB
log.console.level = warning
prometheus.return_per_object_metrics = true
CONF
  number=0
  for name in $RABBIT_PEERS; do
    number=$((number + 1))
    echo "cluster_formation.classic_config.nodes.$number = rabbit@$name"
  done
} > /tmp/rabbitmq.conf
chmod 600 /tmp/rabbitmq.conf
exec /usr/lib/rabbitmq/bin/rabbitmq-server
