#!/bin/sh
# PORT: inserts one row after another, and prints each that is committed.
set -eu
number=0
while :; do
  number=$((number + 1))
  if psql -qX -h 127.0.0.1 -p "$1" -U ci -d postgres -v ON_ERROR_STOP=1 \
    -c "insert into writes values ('row$number-$$', repeat('x', 20000))" 2>/dev/null; then
    echo "row$number-$$"
  else
    sleep 0.1
  fi
done
