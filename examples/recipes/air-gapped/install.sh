#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs ci-doctor without a network: sh install.sh WHEELHOUSE VENV
# WHEELHOUSE is what install/wheelhouse.py has made elsewhere. An agent's image does this once, not each job.
set -eu

wheelhouse=${1:?usage: sh install.sh WHEELHOUSE VENV}
venv=${2:?usage: sh install.sh WHEELHOUSE VENV}
fail() {
  echo "install.sh: $1" >&2
  echo "hint: $2" >&2
  exit "$3"
}

(cd "$wheelhouse" && sha256sum --check --quiet SHA256SUMS) >&2 ||
  fail "$wheelhouse is not what was made: a file is missing or has other bytes" "carry the whole folder here again" 2
[ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
# --no-index: pip asks nobody. --only-binary: a source distribution would need a compiler, and an index for its tools.
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --only-binary :all: \
  --find-links "$wheelhouse" -r "$wheelhouse/requirements.txt" ||
  fail "$wheelhouse does not hold all that $(cat "$wheelhouse/requirements.txt") needs here: see above" \
    "$("$venv/bin/python" --version) on $(uname -m): make the folder with these --python and --machine, and each --extra" 1
"$venv/bin/ci-doctor" --version
