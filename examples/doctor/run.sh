#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One agent twice: as the job finds it, and after the remedies of the report.
set -eu
cd "$(dirname "$0")"
WEIGHTS=$(mktemp -d)/models
export WEIGHTS
trap 'rm -r "$(dirname "$WEIGHTS")"' EXIT
# A proxy for the outside, which must not be asked for servers of this machine.
export http_proxy=http://proxy.internal:3128
unset no_proxy NO_PROXY

# It ends with 75, and prints that itself.
ci-doctor doctor own network/loopback-proxy || :

sh checks/weights.sh --fetch
export no_proxy=127.0.0.1,localhost,::1
export NO_PROXY="$no_proxy"

ci-doctor doctor own network/loopback-proxy --all
