#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes .venv beside this file and installs ci-doctor into it, editable, with the extras named: sh bootstrap.sh example
# Needs git, and Python >= 3.11 with ensurepip (Debian: python3-venv), or uv, or virtualenv.
# PYTHON names an interpreter; else the newest one found is taken. CI_DOCTOR_VENV names another directory than .venv.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
extras=${1:-}
venv=${CI_DOCTOR_VENV:-$here/.venv}
case $venv in
  /*) ;;
  *) venv=$PWD/$venv ;;
esac
venv=${venv%/}
# venv and uv make none where a link is.
if [ -L "$venv" ]; then
  venv=$(readlink -f -- "$venv")
fi

say() {
  echo "bootstrap.sh: $1" >&2
}

# fail WHAT HAPPENED, WHAT TO DO
fail() {
  say "$1"
  shift
  for line in "$@"; do
    echo "  hint: $line" >&2
  done
  exit 2
}

has() {
  command -v "$1" >/dev/null 2>&1
}

new_enough() {
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# Debian and Ubuntu have `venv` in python3 itself, and what it needs in another package.
makes_environments() {
  "$1" -c 'import ensurepip, venv' >/dev/null 2>&1
}

# The first interpreter that $1 accepts, among those that are new enough.
find_python() {
  for candidate in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11 python; do
    if [ -n "$candidate" ] && new_enough "$candidate" && "$1" "$candidate"; then
      echo "$candidate"
      return 0
    fi
  done
  return 1
}

# An environment whose making was cut off has an interpreter and no pip. The programs of one that was copied with its
# checkout start the interpreter of the first.
usable() {
  if [ -e "$stamp" ]; then
    # A stamp of an earlier checkout has one line.
    { read -r _ && read -r place; } <"$stamp" || place=$venv
    [ "$place" = "$venv" ] || return 1
  fi
  new_enough "$venv/bin/python" || return 1
  "$venv/bin/python" -m pip --version >/dev/null 2>&1 || has uv
}

# Whether packages are in it, and not by us: it is not ours to clear.
is_of_others() {
  [ -e "$stamp" ] && return 1
  for package in "$venv"/lib/python3*/site-packages/*.dist-info; do
    case ${package##*/} in
      pip-* | setuptools-*) ;;
      *) [ -e "$package" ] && return 0 ;;
    esac
  done
  return 1
}

no_python() {
  any=$(find_python true) || fail "no Python >= 3.11 found" "set PYTHON=/path/to/python, or install uv"
  version=$("$any" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  fail "$any ($version) cannot make a virtual environment: its module ensurepip is missing" \
    "on Debian and Ubuntu: apt-get install python$version-venv" \
    "or install uv or virtualenv, or set PYTHON=/path/to/another/python"
}

make_environment() {
  if python=$(find_python makes_environments); then
    say "making $venv with $python"
    "$python" -m venv --clear "$venv" >&2
  elif has uv; then
    python=$(find_python true) || python='>=3.11'
    say "making $venv with uv"
    uv venv --quiet --clear --python "$python" "$venv" >&2
  elif has virtualenv && python=$(find_python true); then
    say "making $venv with virtualenv"
    virtualenv --quiet --clear --python "$python" "$venv" >&2
  else
    no_python
  fi
}

# pip of the environment, or uv where that made it without pip.
installer() {
  if "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    "$venv/bin/python" -m pip --quiet --disable-pip-version-check "$@" >&2
    return
  fi
  command=$1
  shift
  [ "$command" = install ] || [ "${1:-}" != --yes ] || shift
  uv pip "$command" --quiet --python "$venv/bin/python" "$@" >&2
}

# The stamp says which pyproject.toml and extras are installed, and where: a second run costs nothing, a changed file a
# reinstall.
wanted="$extras $here $(cksum <"$here/pyproject.toml")
$venv"
stamp=$venv/.ci-doctor-bootstrap
if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && new_enough "$venv/bin/python"; then
  exit 0
fi

if [ -n "${PYTHON:-}" ] && ! new_enough "$PYTHON"; then
  fail "PYTHON=$PYTHON is no Python >= 3.11" "name another, or leave PYTHON unset"
fi
has git || fail "git is missing, and the version of ci-doctor is computed with it" "apt-get install git"
if ! [ -w "$here" ]; then
  fail "$here cannot be written, and an editable installation writes there" "copy the checkout to a place of your own"
fi
if [ -d "$venv" ] && ! [ -e "$venv/pyvenv.cfg" ] && [ -n "$(ls -A "$venv")" ]; then
  fail "$venv is no virtual environment" "move it away, or set CI_DOCTOR_VENV to another directory"
fi
if ! mkdir -p "$venv" 2>/dev/null || ! [ -w "$venv" ]; then
  fail "$venv cannot be written" "set CI_DOCTOR_VENV to a directory that can be"
fi
# Empty, it would be taken for an environment by other tools if the rest fails.
rmdir "$venv" 2>/dev/null || true

if ! usable && is_of_others; then
  fail "$venv has packages, and no pip that works" "move it away, set CI_DOCTOR_VENV to another directory, or install uv"
fi
usable || make_environment || fail "$venv could not be made (see above)" "set PYTHON=/path/to/another/python"

# An earlier checkout was installed under another name, and would take the command along when it is removed.
for former in "$venv"/lib/python3*/site-packages/ci_doctor-*.dist-info; do
  if [ -d "$former" ]; then
    installer uninstall --yes ci-doctor
  fi
done

say "installing ci-doctor${extras:+[$extras]} (a minute or two)"
# Without a network pip tries each address six times.
export PIP_RETRIES="${PIP_RETRIES:-1}" PIP_DEFAULT_TIMEOUT="${PIP_DEFAULT_TIMEOUT:-30}"
installer install --editable "$here${extras:+[$extras]}" || fail "the packages that ci-doctor needs could not be installed" \
  "it needs a package index: a network, or PIP_INDEX_URL, or wheels in a directory that PIP_FIND_LINKS names" \
  "the packages are listed in $here/pyproject.toml"
echo "$wanted" >"$stamp"
