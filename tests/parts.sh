#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034 # `venv` is for who sources this
# Sourced by run.sh and nightly.sh, in the root of the clone: `part` runs a command and notes what it cost; the exit prints it.

# Without bytecode every ci-doctor that a test starts compiles itself anew: 50 to 200 ms each, some 1,500 times.
unset PYTHONDONTWRITEBYTECODE
scratch=$(mktemp -d)
trap 'cat "$scratch/costs"; rm -rf "$scratch"' EXIT
printf '\n %8s %8s  part\n' 'CPU s' 'wall s' >"$scratch/costs"

# Seconds of CPU of all that this shell has waited for. Into a file: in a command substitution they would be another's.
spent() {
  times >"$scratch/times"
  tr 'ms' '  ' <"$scratch/times" | awk '{ total += 60 * ($1 + $3) + $2 + $4 } END { printf "%.1f", total }'
}

# part NAME COMMAND...: run it, and note what it cost, also if it fails.
part() {
  name=$1
  shift
  spent >"$scratch/before"
  began=$(date +%s)
  status=0
  "$@" || status=$?
  spent >"$scratch/after"
  awk -v name="$name" -v wall="$(($(date +%s) - began))" -v status="$status" \
    '{ at[NR] = $1 } END { printf " %8.1f %8d  %s%s\n", at[2] - at[1], wall, name, status ? ": FAILED" : "" }' \
    "$scratch/before" "$scratch/after" >>"$scratch/costs"
  return "$status"
}

# Makes the environment, and puts its programs first on PATH.
set_up() {
  part 'set up' sh bootstrap.sh dev
  venv=${CI_DOCTOR_VENV:-.venv}
  PATH="$(cd "$venv" && pwd)/bin:$PATH"
  export PATH
}

# Three workers on two cores: a test that waits for a server leaves its core to others.
in_workers() {
  python -m pytest --costs -n "${CI_DOCTOR_TEST_WORKERS:-3}" --dist worksteal "$@"
}
