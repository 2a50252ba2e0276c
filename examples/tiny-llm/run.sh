#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sets everything up and runs a story of this example: sh examples/tiny-llm/run.sh [flaky|regression|restart|restart-bug]
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
# From the root of the clone, so that the commands in a report can be pasted there.
cd "$here/../.."
sh bootstrap.sh example
venv=${CI_DOCTOR_VENV:-.venv}
PATH="$(cd "$venv" && pwd)/bin:$PATH"
export PATH

own=examples/tiny-llm
config=$own/${1:-ci-doctor}.toml
exports=$(ci-doctor setup-env --config "$own/ci-doctor.toml") &&
  case $exports in *CI_DOCTOR_PREPARED=*) eval "$exports" ;; *) false ;; esac || exit
case ${1:-} in
restart*) exec ci-doctor restart-check --config "$config" --report-dir ci-doctor-report ;;
*) exec ci-doctor correctness --retries 3 --config "$config" --report-dir ci-doctor-report ;;
esac
