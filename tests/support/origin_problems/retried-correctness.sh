#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The job as it was: are answers with the cache the same as without it? It is tried until it is green.
#   original.sh [intermittent|renamed|two-plans]
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
case=${1:-intermittent}
requests=$here/requests.jsonl
if [ "$case" = renamed ]; then requests=$here/renamed.jsonl; fi
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

wait_for_server() {
  for _ in $(seq 600); do
    if curl -sf --noproxy '*' -o "$work/health" "http://127.0.0.1:$1/health"; then return 0; fi
    sleep 0.1
  done
  return 1
}

answers_of() {  # ARM, the number of the attempt
  local port pid
  # The field's script has a fixed port, which two jobs on one machine fight for.
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  bash "$here/serve.sh" "$case" "$1" "$port" "$2" >"$work/$1.log" 2>&1 &
  pid=$!
  wait_for_server "$port" || return 1
  python3 "$here/ask.py" "$port" "$requests" "$work/$1.$2.txt"
  kill "$pid"
  wait "$pid"
}

run_correctness() {
  answers_of plain "$1" || return 1
  answers_of cached "$1" || return 1
  python3 "$here/compare.py" "$work/plain.$1.txt" "$work/cached.$1.txt" >"$work/compare.log"
  different=$(grep 'Different IDs:' "$work/compare.log" | grep -o '[0-9]*' || echo 0)
  echo "[INFO] Different=$different"
  [ "$different" -eq 0 ]
}

attempts=${CORRECTNESS_MAX_ATTEMPTS:-3}
for attempt in $(seq "$attempts"); do
  echo "=== Attempt $attempt of $attempts ==="
  if run_correctness "$attempt"; then
    echo "[PASS] identical output verified"
    exit 0
  fi
  echo "[INFO] Attempt $attempt failed."
done
echo "[FAIL] failed after $attempts attempts" >&2
exit 1
