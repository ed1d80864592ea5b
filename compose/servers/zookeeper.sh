#!/bin/bash
# One of three ZooKeeper servers. ZOO_ID is its number, ZOO_SERVERS the names of all, in order.
set -euo pipefail
: "${ZOO_ID:?}" "${ZOO_SERVERS:?}"
echo "$ZOO_ID" > /data/myid
{
  printf '%s\n' tickTime=1000 initLimit=20 syncLimit=5 maxClientCnxns=0 dataDir=/data clientPort=2181 \
    admin.enableServer=false 4lw.commands.whitelist=srvr,mntr autopurge.purgeInterval=1 \
    quorumListenOnAllIPs=true
  number=0
  for name in $ZOO_SERVERS; do
    number=$((number + 1))
    echo "server.$number=$name:2888:3888"
  done
} > /tmp/zoo.cfg
exec java -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.logFile=System.out \
  -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp /usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar \
  org.apache.zookeeper.server.quorum.QuorumPeerMain /tmp/zoo.cfg
