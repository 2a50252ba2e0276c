#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Three jobs on fresh agents. It sets ci-doctor up if that is not on PATH.
set -eu
cd "$(dirname "$0")"
if ! command -v ci-doctor >/dev/null; then
  (cd ../.. && sh bootstrap.sh example)
  PATH="$(cd ../.. && cd "${CI_DOCTOR_VENV:-.venv}" && pwd)/bin:$PATH"
  export PATH
fi
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
unset PYTHONDONTWRITEBYTECODE
mkdir -m 700 "$folder/state"
export CI_DOCTOR_STATE_DIR="$folder/state" CI_DOCTOR_CACHE_STORE="$folder/store"
cache="$folder/bytecode"

# The variable is the job's alone: ci-doctor is a Python program, too.
job() {
  PYTHONPYCACHEPREFIX="$1" python3 job.py
}

echo "--- the first job: nothing is saved yet, so it compiles, and saves"
ci-doctor cache restore --family "bytecode=$cache" 2>&1
job "$cache"
ci-doctor cache save --family "bytecode=$cache" 2>&1

echo "--- the second job, on a fresh agent: it restores, and compiles nothing"
rm -r "$cache"
ci-doctor cache restore --family "bytecode=$cache" 2>&1
job "$cache"
ci-doctor cache verify --effect --family "bytecode=$cache"

echo "--- the third job: it restores, and its Python has the cache elsewhere"
rm -r "$cache"
ci-doctor cache restore --family "bytecode=$cache" 2>&1
job "$folder/elsewhere"
ci-doctor cache verify --effect --family "bytecode=$folder/elsewhere"
