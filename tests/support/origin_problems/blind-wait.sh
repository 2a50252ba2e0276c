#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The launch script as it was: two processes in the background, and a wait.   original.sh [broken|right]
# SERVER_WAIT is the limit of the wait. It was 400 s; the miniature waits 8 s.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
case=${1:-broken}
limit=${SERVER_WAIT:-8}
work=$(mktemp -d)
trap 'kill "$engine" "$server" 2>"$work/kill.log"; rm -r "$work"' EXIT
# The field's script has fixed ports, which two jobs on one machine fight for.
read -r port engine_port < <(python3 -c 'import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(each.getsockname()[1] for each in sockets))')

python3 "$here/kv_engine.py" "$case" "$engine_port" >"$work/engine.log" 2>&1 &
engine=$!
python3 "$here/api_server.py" "$port" "$engine_port" >"$work/server.log" 2>&1 &
server=$!

wait_for_server() {
  local began=$SECONDS
  until curl -sf --noproxy '*' -o "$work/health" "http://127.0.0.1:$port/health"; do
    if [ $((SECONDS - began)) -ge "$limit" ]; then
      echo "server failed to start within $limit s"
      echo "--- last 200 lines of server.log"
      tail -200 "$work/server.log"
      return 1
    fi
    sleep 1
  done
  echo "server ready"
}

wait_for_server || exit 1
echo "here the tests would run"
