#!/bin/sh
# PORT: reads acknowledged lines from standard input, and prints each that is not there.
set -eu
while read -r key value; do
  there=$(redis-cli -e -p "$1" get "$key") || exit 2
  [ "$there" = "$value" ] || echo "$key: $value was acknowledged, and ${there:-nothing} is there"
done
