#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a command with the stand-ins in place of vLLM, LMCache and SGLang: sh ../stand-ins/run.sh ci-doctor correctness
# It sets ci-doctor up if that is not on PATH.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$here/../../..
if ! command -v ci-doctor >/dev/null; then
  sh "$root/bootstrap.sh" example
  venv=${CI_DOCTOR_VENV:-$root/.venv}
  PATH="$(cd "$venv" && pwd)/bin:$PATH"
fi
PATH="$here/bin:$PATH"
PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}"
# Nothing here calls BLAS, and its threads cost a start a tenth of a second.
OPENBLAS_NUM_THREADS=1
export PATH PYTHONPATH OPENBLAS_NUM_THREADS
exec "$@"
