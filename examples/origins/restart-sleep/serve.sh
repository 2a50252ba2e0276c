#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Starts the server under test: serve.sh CASE PORT. CASE is
#   helper   the change has a bug: a helper process inherits the listening socket, and outlives the server
#   right    nothing is wrong with the change
set -eu
flags="--plan split8 --kv-reuse"
if [ "$1" = helper ]; then flags="$flags --restart-bug"; fi
# shellcheck disable=SC2086 # words
exec python3 "$(dirname "$0")/../../tiny-llm/server.py" --port "$2" $flags
