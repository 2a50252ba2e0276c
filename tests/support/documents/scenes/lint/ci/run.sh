#!/usr/bin/env bash
# Starts a server, waits for it, and tests it.
set -euo pipefail

wait_for_server() {
  local port=$1 pid=$2
  local deadline=$((SECONDS + 120))
  while ((SECONDS < deadline)); do
    if ! kill -0 "$pid" 2> /dev/null; then
      echo "the server has died" >&2
      return 1
    fi
    if curl -sf --max-time 5 "http://localhost:$port/health" > /dev/null; then
      return 0
    fi
    sleep 2
  done
  echo "the server did not come up" >&2
  return 1
}

python server.py --port 8000 > server.log 2>&1 &
server=$!
trap 'kill "$server"' EXIT

wait_for_server 8000 "$server" || exit 1
python ci/check_scores.py | tee scores.log
echo "all tests passed"
