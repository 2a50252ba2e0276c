#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sets everything up and runs every check and test: sh tests/run.sh
set -eu

cd -- "$(dirname -- "$0")/.."
sh bootstrap.sh dev
PATH="$PWD/.venv/bin:$PATH"
export PATH

ruff check .
ruff format --check .
mypy
lint-imports
shellcheck bootstrap.sh tests/run.sh examples/tiny-llm/run.sh .ci/run
rm -f .coverage .coverage.*
COVERAGE_PROCESS_START=pyproject.toml coverage run -m pytest -n "${CI_DOCTOR_TEST_WORKERS:-2}" "$@"
coverage combine --quiet
coverage report --skip-covered
