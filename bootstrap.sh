#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes .venv beside this file and installs ci-doctor into it, editable, with the extras named: sh bootstrap.sh example
# Needs Python >= 3.11 with its venv module, and git. PYTHON names an interpreter; else the newest one found is taken.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
extras=${1:-}

new_enough() {
  "$1" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
  for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11 python; do
    if [ -n "$candidate" ] && new_enough "$candidate"; then
      echo "$candidate"
      return 0
    fi
  done
  echo "bootstrap.sh: no Python >= 3.11 with its venv module found; set PYTHON=/path/to/python" >&2
  return 1
}

# The stamp says which pyproject.toml and extras are installed: a second run costs nothing, a changed file a reinstall.
wanted="$extras $(cksum <"$here/pyproject.toml")"
stamp=$here/.venv/.ci-doctor-bootstrap
if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
  exit 0
fi

if ! new_enough "$here/.venv/bin/python"; then
  python=$(find_python)
  echo "bootstrap.sh: making $here/.venv with $python" >&2
  "$python" -m venv --clear "$here/.venv"
fi
echo "bootstrap.sh: installing ci-doctor${extras:+[$extras]} (a minute or two)" >&2
"$here/.venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable "$here${extras:+[$extras]}" >&2
echo "$wanted" >"$stamp"
