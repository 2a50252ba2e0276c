#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The same two pods by ci-doctor: with-ci-doctor.sh [inert|paid]
#   inert  as in original.sh: what is restored lies where the library does not look
#   paid   the cache lies where the library looks
set -euo pipefail
cd "$(dirname "$0")"
case=${1:-inert}
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
unset PYTHONDONTWRITEBYTECODE
mkdir -m 700 "$work/state"
export CI_DOCTOR_STATE_DIR="$work/state" CI_DOCTOR_CACHE_STORE="$work/store"
restored=$work/kernels used=$work/kernels
if [ "$case" = inert ]; then used=$work/kernels-2.0; fi

echo "=== pod 1"
PYTHONPYCACHEPREFIX=$restored python3 job.py
ci-doctor cache save --family "bytecode=$restored"
# Pod 2 has a disk of its own, and the same paths.
rm -r "$restored"

echo "=== pod 2"
ci-doctor cache restore --family "bytecode=$restored"
PYTHONPYCACHEPREFIX=$used python3 job.py
ci-doctor cache verify --effect --strict --family "bytecode=$used"
