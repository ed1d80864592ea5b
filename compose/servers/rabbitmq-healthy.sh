#!/bin/bash
# Healthy: the node speaks AMQP, which it does only when it is part of its cluster and has booted, and the
# management API counts at least RABBIT_QUORUM running nodes as seen from here.
set -euo pipefail
exec 3<>/dev/tcp/127.0.0.1/5672
printf 'AMQP\0\0\11\1' >&3
[ "$(head -c 1 <&3 | od -An -tu1 | tr -d ' ')" = 1 ] || exit 1
auth=$(printf 'tocsin:%s' "$(cat /run/secrets/rabbitmq_password)" | base64 -w0)
exec 4<>/dev/tcp/127.0.0.1/15672
printf 'GET /api/nodes?columns=running HTTP/1.0\r\nAuthorization: Basic %s\r\n\r\n' "$auth" >&4
running=$(timeout 5 cat <&4 | grep -o '"running":true' | wc -l)
[ "$running" -ge "${RABBIT_QUORUM:-2}" ] || { echo "$running nodes running"; exit 1; }
