#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The history of the nightly builds: sh history.sh fetch|publish
# SQLite must not be written over NFS, so a job writes a copy on its own disk. `mv` replaces the shared file at once:
# whoever reads it meanwhile keeps the old one.
set -eu

shared=${CI_DOCTOR_SHARED:?names the directory that nightly builds write and pull requests read}/history.sqlite
own=${CI_DOCTOR_HISTORY_DATABASE:?names the file of this job}
case ${1:-} in
fetch)
  if [ -e "$shared" ]; then
    cp "$shared" "$own"
  else
    rm -f "$own"
  fi
  ;;
publish)
  if [ -s "$own-wal" ]; then
    echo "$own is still being written" >&2
    exit 1
  fi
  cp "$own" "$shared.new"
  mv -f "$shared.new" "$shared"
  ;;
*)
  echo "usage: sh history.sh fetch|publish" >&2
  exit 2
  ;;
esac
