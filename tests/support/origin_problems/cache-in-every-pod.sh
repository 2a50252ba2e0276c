#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The pods as they were: each one unpacks the cache of the last one, runs its job, and packs the cache again.
# original.sh [PODS]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
pods=${1:-2}
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
unset PYTHONDONTWRITEBYTECODE

for pod in $(seq "$pods"); do
  echo "=== pod $pod"
  home=$work/pod-$pod
  mkdir -p "$home/.cache/kernels"
  if [ -f "$work/store.tar" ]; then
    tar -xf "$work/store.tar" -C "$home/.cache/kernels"
    echo "restored $(find "$home/.cache/kernels" -name '*.pyc' | wc -l) compiled files"
  fi
  # The library was updated, and keeps its cache below a directory with its version in it.
  PYTHONPYCACHEPREFIX=$home/.cache/kernels-2.0 python3 "$here/job.py"
  tar -cf "$work/store.tar" -C "$home/.cache/kernels-2.0" .
  echo "saved the cache"
  # The miniature's own count. The original had none: nobody saw this.
  echo "(compiled $(find "$home/.cache/kernels-2.0" -name '*.pyc' | wc -l) files in this pod)"
done
