#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One agent twice: before the remedies of the report, and after them. It sets ci-doctor up if that is not on PATH.
set -eu
cd "$(dirname "$0")"
if ! command -v ci-doctor >/dev/null; then
  (cd ../.. && sh bootstrap.sh example)
  PATH="$(cd ../.. && cd "${CI_DOCTOR_VENV:-.venv}" && pwd)/bin:$PATH"
  export PATH
fi
WEIGHTS=$(mktemp -d)/models
export WEIGHTS
trap 'rm -r "$(dirname "$WEIGHTS")"' EXIT
# A proxy for the outside, which must not be asked for servers of this machine.
export http_proxy=http://proxy.internal:3128
unset no_proxy NO_PROXY

# It prints its exit code itself.
status=0
ci-doctor doctor own network/loopback-proxy || status=$?
[ "$status" = 75 ]

sh checks/weights.sh --fetch
export no_proxy=127.0.0.1,localhost,::1
export NO_PROXY="$no_proxy"

ci-doctor doctor own network/loopback-proxy --all
