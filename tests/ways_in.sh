#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2329 # functions that `try` calls
# Tries every way in of docs/install.md as a stranger, in a folder of its own: sh tests/ways_in.sh FOLDER [WAY...]
# Not in CI: it takes some minutes. FOLDER must be empty or absent. The wheelhouse needs a package index; all else is offline.
# Ways that need a tool that is missing are skipped, and said. As root it also tries a user without a home.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
[ $# -gt 0 ] || { sed -n 4,6p "$0" >&2; exit 2; }
mkdir -p "$1"
work=$(CDPATH='' cd -- "$1" && pwd)
shift
own=$root/.venv/bin/python
failed=0
distribution=ci-doctor-toolkit
promised='3.11 3.12 3.13'

say() {
  printf '%-34s %s\n' "$1" "$2"
}

# A stranger: nothing of this shell, an empty home, no package index.
stranger() {
  env -i PATH="${stranger_path:-/usr/local/bin:/usr/bin:/bin}" HOME="$work/home" LANG=C.UTF-8 NO_COLOR=1 \
    PIP_NO_INDEX=1 PIP_FIND_LINKS="$work/wheelhouse" PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_CONFIG_FILE=/dev/null \
    UV_OFFLINE=1 UV_NO_INDEX=1 UV_FIND_LINKS="$work/wheelhouse" UV_PYTHON_DOWNLOADS=never \
    UV_TOOL_BIN_DIR="$work/home/bin" "$@"
}

# try NAME COMMAND...: its output goes to a log, which is printed if it fails.
try() {
  name=$1
  shift
  if [ -n "$wanted" ] && ! echo " $wanted " | grep -q " $name "; then
    return 0
  fi
  if "$@" >"$work/$name.log" 2>&1; then
    say "$name" "$(grep -m 1 '^ci-doctor [0-9]' "$work/$name.log" || true)"
  else
    failed=1
    say "$name" "FAILED, $work/$name.log"
    tail -n 15 "$work/$name.log" | sed 's/^/    /'
  fi
}

# uses COMMAND...: a version, an explanation, a diagnosis, a server started and stopped. `set -e` does not hold in `try`.
uses() {
  job=$(mktemp -d "$work/job.XXXXXX") && cd "$job" &&
    echo "TypeError: f() got an unexpected keyword argument 'a'" >some.log &&
    stranger "$@" --version &&
    stranger "$@" explain 75 &&
    diagnosed=$(stranger "$@" diagnose some.log) &&
    case $diagnosed in *'API drift'*) ;; *) echo "$diagnosed" && false ;; esac &&
    stranger "$@" launch --service web="$python -m http.server {port}" --ready 'web=tcp://127.0.0.1:{port}' -- sh -c : &&
    cd "$work"
}

python_of() {
  for candidate in "/usr/bin/python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1"*/bin/python "python$1"; do
    if "$candidate" -c "import sys, ensurepip; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

pip_of() {
  stranger "$1" -m venv "$2" && stranger "$2/bin/pip" install -q -r "$work/wheelhouse/requirements.txt" &&
    uses "$2/bin/ci-doctor"
}

from_sdist() {
  stranger "$python" -m venv "$work/sdist" && stranger "$work/sdist/bin/pip" install -q "$work"/dist/*.tar.gz &&
    uses "$work/sdist/bin/ci-doctor"
}

constrained() {
  stranger "$python" -m venv "$work/constrained" &&
    stranger "$work/constrained/bin/pip" install -q -c "$root/install/constraints.txt" "${distribution}" --pre &&
    uses "$work/constrained/bin/ci-doctor"
}

uvx_of() {
  uses "$tools/bin/uvx" --python "$python" --prerelease allow --from "$distribution" ci-doctor
}

uv_tool() {
  stranger "$tools/bin/uv" tool install -q --python "$python" --prerelease allow "${distribution}" &&
    uses "$work/home/bin/ci-doctor"
}

pipx_run() {
  uses "$tools/bin/pipx" run --python "$python" --spec "$distribution==$version" ci-doctor
}

pipx_install() {
  stranger "$tools/bin/pipx" install -q --python "$python" "${distribution}==$version" &&
    uses "$work/home/.local/bin/ci-doctor"
}

# User 65534 cannot write into its home, nor into the environment.
without_root() {
  chmod -R a+rX "$work"
  cd /tmp
  setpriv --reuid=65534 --regid=65534 --clear-groups env -i PATH=/usr/bin:/bin HOME=/nonexistent NO_COLOR=1 \
    sh -c "cd \"\$(mktemp -d)\" && '$work/a folder/venv 3.11/bin/ci-doctor' --version &&
      '$work/a folder/venv 3.11/bin/ci-doctor' launch --service web='$python -m http.server {port}' \
        --ready 'web=tcp://127.0.0.1:{port}' -- sh -c :"
}

# The programs of an image without git and compiler: what needs git says so, all else works.
without_git() {
  mkdir -p "$work/slim" "$work/project" || return
  for program in sh env cat uname; do
    ln -sf "$(command -v "$program")" "$work/slim/$program" || return
  done
  stranger_path=$work/slim
  uses "$work/a folder/venv 3.11/bin/ci-doctor" && cd "$work/project" || return
  printf '[build-system]\nrequires = ["setuptools-scm"]\nbuild-backend = "setuptools.build_meta"\n' >pyproject.toml
  printf '[project]\nname = "p"\ndynamic = ["version"]\n[tool.setuptools_scm]\n' >>pyproject.toml
  status=0
  stranger "$work/a folder/venv 3.11/bin/ci-doctor" setup-env >exports 2>message || status=$?
  cat message
  [ "$status" = 2 ] && grep -q 'no git on PATH' message && grep -q 'hint: install git' message
}

wanted="$*"
rm -rf "${work:?}/home" && mkdir -p "$work/home"
[ -d "$work/dist" ] || (cd "$root" && "$own" -m release.build --out "$work/dist")
if ! [ -d "$work/wheelhouse" ]; then
  versions=
  for each in $promised; do
    versions="$versions --python $each"
  done
  # shellcheck disable=SC2086 # a list of words
  "$own" "$root/install/wheelhouse.py" --out "$work/wheelhouse" --source "$work"/dist/*.whl --extra all $versions
fi
version=$(sed 's/.*==//' "$work/wheelhouse/requirements.txt")
python=$(python_of 3.11)

for each in $promised; do
  if interpreter=$(python_of "$each"); then
    try "pip-$each" pip_of "$interpreter" "$work/a folder/venv $each"
  else
    say "pip-$each" "skipped: no Python $each here"
  fi
done
try sdist from_sdist
try constraints constrained
tools=$work/tools
if ! [ -d "$tools" ]; then
  "$python" -m venv "$tools"
  "$tools/bin/pip" install -q uv pipx >"$tools/log" 2>&1 || say "uv, pipx" "skipped: pip does not find them"
fi
if [ -x "$tools/bin/uvx" ]; then
  try uvx uvx_of
  try uv-tool uv_tool
fi
if [ -x "$tools/bin/pipx" ]; then
  try pipx-run pipx_run
  try pipx-install pipx_install
fi
try without-git without_git
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
  try without-root without_root
else
  say without-root "skipped: only root can become another user"
fi
exit "$failed"
