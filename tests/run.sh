#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The gate: sets everything up, runs the checks and tests that a usual change can break, and prints what each part cost:
#   sh tests/run.sh [ARGUMENTS OF pytest]
# What it leaves out (tests marked `nightly`, all examples of hypothesis, other Pythons, coverage) is in tests/nightly.sh.
# CI_DOCTOR_VENV names another directory than .venv, from the root of the clone.
set -eu

cd -- "$(dirname -- "$0")/.."
# shellcheck source=tests/parts.sh
. tests/parts.sh

lint() {
  ruff check . && ruff format --check . &&
    shellcheck bootstrap.sh .ci/run docs/build.sh tests/*.sh examples/tiny-llm/run.sh examples/doctor/run.sh examples/vllm/run.sh \
      benchmarks/diagnose/passing/prelude.sh benchmarks/diagnose/passing/programs/serve_and_test.sh
}

set_up
part lint lint
part types mypy
part contracts lint-imports
part 'tests (see the table above)' in_workers -m 'not nightly' "$@"
