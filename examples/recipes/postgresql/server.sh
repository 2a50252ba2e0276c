#!/bin/sh
# setup: a new cluster in data/; run PORT: the server. PostgreSQL refuses root, so root becomes nobody.
set -eu
bin=$(find /usr/lib/postgresql -mindepth 2 -maxdepth 2 -name bin | sort -V | tail -n 1)
as_user=
[ "$(id -u)" != 0 ] || as_user='setpriv --reuid=65534 --regid=65534 --clear-groups'

if [ "$1" = run ]; then
  # shellcheck disable=SC2086 # several words, or none
  exec $as_user "$bin/postgres" -D data/cluster -p "$2"
fi
rm -rf data
mkdir data
[ -z "$as_user" ] || chown 65534:65534 data
# A small log of writes, so that a checkpoint comes soon and lasts.
# shellcheck disable=SC2086
$as_user "$bin/initdb" -D data/cluster -U ci --auth=trust --no-sync --wal-segsize=1
cat >>data/cluster/postgresql.conf <<CONF
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
min_wal_size = 2MB
max_wal_size = 2MB
CONF
# shellcheck disable=SC2086
$as_user "$bin/postgres" --single -D data/cluster postgres <<SQL
create table writes (key text, value text);
alter table writes alter value set storage external;
SQL
