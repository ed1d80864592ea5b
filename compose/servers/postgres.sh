#!/bin/bash
# A Postgres server with the database and the user `tocsin`; the password is a secret.
set -euo pipefail
bin=$(echo /usr/lib/postgresql/*/bin)
if [ ! -s /data/db/PG_VERSION ]; then
  rm -rf /data/new
  "$bin/initdb" --pgdata /data/new --username postgres --auth-local peer --auth-host scram-sha-256 \
    --encoding UTF8 --locale C.UTF-8 > /dev/null
  echo 'host all all all scram-sha-256' >> /data/new/pg_hba.conf
  {
    printf "create role tocsin login password '%s';\n" "$(cat /run/secrets/postgres_password)"
    printf 'create database tocsin owner tocsin;\n'
  } > /tmp/make.sql
  "$bin/pg_ctl" --pgdata /data/new --wait --silent --options "-c listen_addresses='' -k /tmp" start
  psql --quiet --host /tmp --set ON_ERROR_STOP=1 --file /tmp/make.sql
  "$bin/pg_ctl" --pgdata /data/new --wait --silent --mode fast stop
  rm /tmp/make.sql
  mv /data/new /data/db  # complete, or not there
fi
exec "$bin/postgres" -D /data/db -k /tmp -c listen_addresses='*' -c max_connections=100 \
  -c shared_buffers=128MB -c timezone=UTC
