#!/bin/sh
# PORT: reads acknowledged lines from standard input, and prints each that is not there.
set -eu
there=$(psql -qtAX -h 127.0.0.1 -p "$1" -U ci -d postgres -c 'select key from writes') || exit 2
while read -r key; do
  printf '%s\n' "$there" | grep -qxF -- "$key" || echo "$key"
done
