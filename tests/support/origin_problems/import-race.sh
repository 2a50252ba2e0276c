#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The job as it was: start the server's command line. If an import fails, clean up and try again.
#   original.sh [TRIES]
# The program is examples/import-race. Of three starts the first one meets a cold disk, as on a fresh pod.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tries=${1:-3}
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
cp -r "$here/../../import-race" "$work/job"
cd "$work/job" || exit

start() {
  cold=0
  if [ "$1" -eq 1 ]; then cold=0.6; fi
  python3 "$here/cold_disk.py" "$cold" lazy_models serving.cli
}

for attempt in $(seq "$tries"); do
  if start "$attempt" 2>"$work/error.log"; then
    echo "[PASS] in attempt $attempt"
    exit 0
  fi
  echo "[WARN] attempt $attempt failed: $(tail -1 "$work/error.log")"
  echo "[INFO] perhaps a stale .pyc: evicting __pycache__"
  find . -name __pycache__ -prune -exec rm -r {} +
done
echo "[FAIL] failed after $tries attempts" >&2
exit 1
