#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs what can differ between Pythons (processes, signals, imports, shims, the parser of `re`) on the others that we promise: sh tests/other_pythons.sh
# An interpreter is pythonX.Y on PATH, or pyenv's. One that is missing is said and skipped.
set -eu

cd -- "$(dirname -- "$0")/.."
promised='3.11 3.12 3.13'
files='tests/unit/system/test_guardian_wire.py tests/unit/imports/test_trace.py tests/unit/preload/test_injection.py
  tests/unit/preload/test_install.py tests/unit/preload/test_verify.py
  tests/unit/diagnosis/test_log_rules.py tests/integration/test_guardian.py
  tests/integration/test_import_recorder.py tests/integration/test_preload_signals.py'

is_version() {
  "$2" -c "import sys, venv, ensurepip; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" >/dev/null 2>&1
}

# The interpreter of version $1, if there is one.
find_version() {
  for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1"*/bin/python; do
    if is_version "$1" "$candidate"; then
      echo "$candidate"
      return 0
    fi
  done
  return 1
}

# Inside the environment of the checkout: nothing else lies in the checkout, and a new one takes these away.
prepare() {
  wanted=$(cksum <pyproject.toml)
  [ "$(cat "$2/stamp" 2>/dev/null)" = "$wanted" ] && return 0
  "$1" -m venv --clear "$2"
  "$2/bin/python" -m pip install --quiet --disable-pip-version-check --editable '.[pytest]' \
    hypothesis pytest-xdist pytest-randomly pytest-timeout
  echo "$wanted" >"$2/stamp"
}

venv=${CI_DOCTOR_VENV:-.venv}
own=$("$venv/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
for version in $promised; do
  [ "$version" = "$own" ] && continue
  if ! python=$(find_version "$version"); then
    echo "other_pythons.sh: no Python $version with venv here: its part is skipped" >&2
    continue
  fi
  echo "Python $version: $python"
  environment=$venv/other/$version
  prepare "$python" "$environment"
  # shellcheck disable=SC2086 # a list of paths
  CI_DOCTOR_TEST_OWN_PYTHON=1 "$environment/bin/python" -m pytest -q -n "${CI_DOCTOR_TEST_WORKERS:-3}" --dist worksteal $files
done
