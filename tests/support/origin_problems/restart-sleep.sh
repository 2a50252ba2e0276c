#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The test as it was: does the server answer again after it was killed?   original.sh [helper|right]
# RESTART_WAIT is the sleep between the kill and the check. It was 60 s; the miniature sleeps 6 s.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
case=${1:-helper}
wait_s=${RESTART_WAIT:-6}
work=$(mktemp -d)

# The test left processes behind. The miniature ends them, by a variable that all of them have.
tidy_up() {
  for environ in /proc/[0-9]*/environ; do
    if grep -qsa "ORIGINS_RUN=$work" "$environ"; then kill "$(basename "$(dirname "$environ")")"; fi
  done
  rm -r "$work"
}
trap tidy_up EXIT

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

start() {
  ORIGINS_RUN=$work bash "$here/serve.sh" "$case" "$1" >>"$work/server.log" 2>&1 &
  pid=$!
}

ask() {
  for _ in $(seq 100); do
    if curl -sf --noproxy '*' --max-time 2 "http://127.0.0.1:$1/v1/models"; then
      echo
      return 0
    fi
    sleep 0.1
  done
  return 1
}

first=$(free_port)
start "$first"
ask "$first"
kill -9 "$pid"
wait "$pid" 2>>"$work/kill.log" || true
echo "server killed, waiting ${wait_s} s for it to go away"
sleep "$wait_s"
# Another port: with the first one, this test failed now and then with "Address already in use".
second=$(free_port)
start "$second"
ask "$second"
echo "[PASS] the server recovered"
