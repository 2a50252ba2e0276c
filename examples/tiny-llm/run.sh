#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sets everything up and runs a story of this example: sh examples/tiny-llm/run.sh [flaky|regression|restart|restart-bug]
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
sh "$here/../../bootstrap.sh" example
PATH="$here/../../.venv/bin:$PATH"
export PATH
cd "$here"

config=${1:-ci-doctor}.toml
exports=$(ci-doctor setup-env --config ci-doctor.toml)
eval "$exports"
case $config in
restart*) exec ci-doctor restart-check --config "$config" --report-dir ../../ci-doctor-report ;;
*) exec ci-doctor correctness --retries 3 --config "$config" --report-dir ../../ci-doctor-report ;;
esac
