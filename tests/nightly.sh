#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2329 # functions that `part` calls
# What tests/run.sh leaves out; every part is run, whatever fails: sh tests/nightly.sh [--coverage] [ARGUMENTS OF pytest]
# --coverage runs the tests of the gate as well, and says which lines of the package no test runs.
# CI_DOCTOR_VENV names another directory than .venv, from the root of the clone.
set -eu

cd -- "$(dirname -- "$0")/.."
# shellcheck source=tests/parts.sh
. tests/parts.sh

# The property tests are in the gate too, with fewer examples.
rest() {
  in_workers -m 'nightly or hypothesis' --hypothesis-profile full --timeout 1200 "$@"
}

# The .pth file is what tests/support/measure.py is about; without the variable it does nothing.
measured() {
  site=$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  cp tests/support/measure.py "$site/measure_coverage.py"
  echo 'import os; os.getenv("MEASURE_COVERAGE") and __import__("measure_coverage").start()' >"$site/measure_coverage.pth"
  rm -f .coverage .coverage.*
  MEASURE_COVERAGE=$PWD in_workers --hypothesis-profile full --timeout 1200 "$@"
}

coverage_of_all() {
  python tests/support/measured.py && coverage report --skip-covered
}

# Hours, where their environments were made (`benchmarks/real_servers.py build`); each commit has runs of its own.
real_servers() {
  CI_DOCTOR_REAL_RUNS=runs-$(git rev-parse --short HEAD) python benchmarks/real_servers.py night
}

tests=rest
if [ "${1:-}" = --coverage ]; then
  tests=measured
  shift
fi
failed=0
set_up
part 'tests (see the table above)' "$tests" "$@" || failed=1
part 'other Pythons' sh tests/other_pythons.sh || failed=1
part 'real servers' real_servers || failed=1
[ "$tests" = rest ] || part coverage coverage_of_all || failed=1
exit "$failed"
