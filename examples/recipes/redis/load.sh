#!/bin/sh
# PORT: sets one key after another, and prints each that Redis has acknowledged.
set -eu
number=0
while :; do
  number=$((number + 1))
  if [ "$(redis-cli -p "$1" set "key$number" "$$" 2>/dev/null)" = OK ]; then
    echo "key$number $$"
  else
    sleep 0.1
  fi
done
