# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Functions for the scripts in tables/*.toml. $PLACE is the directory of the place, $CACHE is shared by all,
# $PYTHON is an interpreter that can make virtual environments, $PROGRAMS holds our own programs.

# A server left in the background would hold the log open until the step's time is over.
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT

# sdist REQUIREMENT: unpacks the package's published source into $PLACE/src.
sdist() {
  mkdir -p "$PLACE/sdist" "$PLACE/src"
  "$PYTHON" -m pip download -q --no-deps --no-binary "${1%%[=<>]*}" -d "$PLACE/sdist" "$1"
  tar -xf "$PLACE"/sdist/*.tar.gz -C "$PLACE/src" --strip-components=1
}

# venv REQUIREMENT…: a virtual environment in $PLACE/venv, which is first in PATH.
venv() {
  "$PYTHON" -m venv "$PLACE/venv"
  "$PLACE/venv/bin/pip" install -q --disable-pip-version-check "$@"
}

# suite NAME REQUIREMENT…: the source of a package, and an environment with it and what its tests need.
suite() {
  local name=$1
  shift
  sdist "$name"
  venv "$PLACE"/src "$@"
}

# free_port: a TCP port of this machine that nothing listens on.
free_port() {
  "$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# other_python VERSION: the path of another interpreter.
other_python() {
  if command -v pyenv >/dev/null; then
    echo "$(pyenv prefix "$(pyenv latest "$1")")/bin/python"
  else
    command -v "python$1"
  fi
}
