#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sets everything up and runs the main job on this example: sh examples/tiny-llm/run.sh [flaky|regression]
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
sh "$here/../../bootstrap.sh" example
PATH="$here/../../.venv/bin:$PATH"
export PATH
cd "$here"

config=${1:-ci-doctor}.toml
exports=$(ci-doctor setup-env --config ci-doctor.toml)
eval "$exports"
exec ci-doctor correctness --retries 3 --config "$config" --report-dir ../../ci-doctor-report
