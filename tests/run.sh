#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sets everything up, runs every check and test, and prints what each part cost: sh tests/run.sh [ARGUMENTS OF pytest]
# CI_DOCTOR_VENV names another directory than .venv, from the root of the clone.
set -eu

cd -- "$(dirname -- "$0")/.."
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
  awk -v name="$name" -v wall="$(($(date +%s) - began))" \
    '{ at[NR] = $1 } END { printf " %8.1f %8d  %s\n", at[2] - at[1], wall, name }' \
    "$scratch/before" "$scratch/after" >>"$scratch/costs"
  return "$status"
}

lint() {
  ruff check . && ruff format --check . &&
    shellcheck bootstrap.sh .ci/run docs/build.sh tests/*.sh examples/tiny-llm/run.sh examples/doctor/run.sh \
      examples/origins/*/*.sh benchmarks/diagnose/passing/prelude.sh benchmarks/diagnose/passing/programs/serve_and_test.sh
}

# Three workers on two cores: a test that waits for a server leaves its core to others. The .pth file is what
# tests/support/measure.py is about; without the variable it does nothing.
tests() {
  site=$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  cp tests/support/measure.py "$site/measure_coverage.py"
  echo 'import os; os.getenv("MEASURE_COVERAGE") and __import__("measure_coverage").start()' >"$site/measure_coverage.pth"
  rm -f .coverage .coverage.*
  MEASURE_COVERAGE=$PWD python -m pytest --costs --hypothesis-profile ci \
    -n "${CI_DOCTOR_TEST_WORKERS:-3}" --dist worksteal "$@"
}

coverage_of_all() {
  python tests/support/measured.py && coverage report --skip-covered
}

part 'set up' sh bootstrap.sh dev
venv=${CI_DOCTOR_VENV:-.venv}
PATH="$(cd "$venv" && pwd)/bin:$PATH"
export PATH
part lint lint
part types mypy
part contracts lint-imports
part 'tests (see the table above)' tests "$@"
part 'other Pythons' sh tests/other_pythons.sh
part coverage coverage_of_all
