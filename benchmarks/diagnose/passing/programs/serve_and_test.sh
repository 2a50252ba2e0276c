# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# serve_and_test.sh FORM SCENARIO: starts the server, waits for it as CI jobs do, asks it, and stops it.
set -eu
port=$("$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$PYTHON" "$PROGRAMS/serve.py" "$1" "$port" "$2" &
server=$!
until curl -sS "http://127.0.0.1:$port/health"; do
  echo "Waiting for server, connection refused"
  sleep 0.3
done
for path in /v1/models /v1/raise /v1/timeout /v1/completions; do
  curl -s -o /dev/null -w "client: $path answered %{http_code}\n" "http://127.0.0.1:$port$path"
done
kill -TERM "$server"
wait "$server"
echo "Server exited with code $?"
