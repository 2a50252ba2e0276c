#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs the ci-doctor of the option `install` into a virtual environment, once per agent and never unpinned.
#
# CACHE/ci-doctor-toolkit-VERSION-DIGEST/   one for each requirement, interpreter and kind of machine
#   venv.N                                  never moved, because its programs name its path
#   current                                 the venv that counts, and its version; renamed into place when all is done
#   lock

CI_DOCTOR_LIB="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

# ci_doctor_installed REQUIREMENT [may-install]: sets CI_DOCTOR_VENV_DIR. Status 2 and a message for a requirement that
# is refused and for a machine that cannot install, 75 for an installation that failed.
ci_doctor_installed() {
  local requirement="$1" version="" source="" sha256="" python="" place
  CI_DOCTOR_VENV_DIR=""
  # An earlier hook of this job has it, whatever became of PATH since.
  if [[ "${CI_DOCTOR_INSTALLED:-}" == "$requirement "* && -x "${CI_DOCTOR_INSTALLED#"$requirement "}/bin/ci-doctor" ]]; then
    CI_DOCTOR_VENV_DIR="${CI_DOCTOR_INSTALLED#"$requirement "}"
    return
  fi
  ci_doctor_read_requirement && ci_doctor_read_python && ci_doctor_read_place || return
  if [[ "${2:-}" != may-install ]]; then
    ci_doctor_read_current
    return
  fi
  ci_doctor_is_usable || (ci_doctor_install) || return
  ci_doctor_read_current
}

# For the later hooks, and the command: the installed ci-doctor is its `ci-doctor`, and PATH gets nothing else.
ci_doctor_export_installed() {
  [[ -n "${CI_DOCTOR_VENV_DIR:-}" ]] || return 0
  CI_DOCTOR_INSTALLED="$(ci_doctor_option INSTALL) $CI_DOCTOR_VENV_DIR"
  export CI_DOCTOR_INSTALLED PATH="$CI_DOCTOR_VENV_DIR/command:$PATH"
}

# Sets `version`, for a commit the short form of it; for a wheel `source` and `sha256`, too. Other distributions are refused: on the package index the name
# of our command belongs to another project.
ci_doctor_read_requirement() {
  local pinned='^ci-doctor-toolkit(\[[a-z-]+(,[a-z-]+)*\])?==([0-9][0-9A-Za-z.!+]*)$'
  local wheel='^(.*/)?ci_doctor_toolkit-([0-9][0-9A-Za-z.!+%_]*)-[^/#]+\.whl#sha256=([0-9a-fA-F]{64})$'
  local commit='^git\+(https|http|ssh|git|file)://[^[:space:]#?]+@([0-9a-f]{40}|[0-9a-f]{64})(#subdirectory=[A-Za-z0-9._/-]+)?$'
  if [[ "$requirement" =~ $commit ]]; then
    version="g${BASH_REMATCH[2]:0:12}"
  elif [[ "$requirement" =~ $pinned ]]; then
    version="${BASH_REMATCH[3]}"
  elif [[ "$requirement" =~ $wheel ]]; then
    version="${BASH_REMATCH[2]}" sha256="${BASH_REMATCH[3]}" source="${requirement%#*}"
    case "$source" in
      https://* | http://* | file:///* | /*) ;;
      *://*) ci_doctor_refuse "option \`install\`: $source is none of https://, http://, file:// and a path" ;;
      *) source="$PWD/$source" ;;
    esac
  else
    ci_doctor_refuse "option \`install\`: $requirement is none of git+URL@COMMIT, ci-doctor-toolkit==VERSION and PATH_OR_URL/ci_doctor_toolkit-VERSION-….whl#sha256=HEX: only what is pinned is installed"
  fi
}

# Sets `python`: what makes the virtual environment. uv brings a Python if the machine has none.
ci_doctor_read_python() {
  local candidate
  if type -P uv >/dev/null; then
    python=uv
    return
  fi
  for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
    if "$candidate" -I -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
      python="$candidate"
      return
    fi
  done
  ci_doctor_refuse "option \`install\` needs uv, or a python3 of 3.11 or newer with venv (Debian and Ubuntu: apt-get install python3-venv); neither is on PATH"
}

# Sets `place`. A home directory may be shared by machines of several kinds.
ci_doctor_read_place() {
  local cache identity digest kind=uv
  cache="$(ci_doctor_option INSTALL_DIR)"
  cache="${cache:-${CI_DOCTOR_CACHE_DIR:-${XDG_CACHE_HOME:+$XDG_CACHE_HOME/ci-doctor}}}"
  cache="${cache:-${HOME:+$HOME/.cache/ci-doctor}}"
  cache="${cache:-${BUILDKITE_BUILD_PATH:+${BUILDKITE_BUILD_PATH%/}-ci-doctor}}"
  if [[ -z "$cache" ]]; then
    ci_doctor_refuse "option \`install\` has no place: set the option \`install-dir\`, CI_DOCTOR_CACHE_DIR or HOME"
    return
  fi
  [[ "$cache" == /* ]] || cache="$PWD/$cache"
  [[ "$python" == uv ]] || kind="$("$python" -I -c 'import sys; print(sys.base_prefix, sys.version)')"
  identity="${sha256:-$requirement}|$kind|$(uname -sm)"
  digest="$(printf '%s' "$identity" | sha256sum)" || return
  place="$cache/ci-doctor-toolkit-${version//[!0-9A-Za-z.]/_}-${digest:0:16}"
}

# Sets CI_DOCTOR_VENV_DIR to the virtual environment that counts; status 75 if there is none.
ci_doctor_read_current() {
  local name="" installed=""
  read -r name installed 2>/dev/null <"$place/current"
  [[ "$name" == venv.* && -x "$place/$name/bin/ci-doctor" ]] || return 75
  CI_DOCTOR_VENV_DIR="$place/$name"
  CI_DOCTOR_VENV_VERSION="$installed"
}

# Whether the one that counts still works: its interpreter may be gone, or a part of its files.
ci_doctor_is_usable() {
  ci_doctor_read_current && [[ -n "$CI_DOCTOR_VENV_VERSION" ]] &&
    [[ "$(ci_doctor_version_of "$CI_DOCTOR_VENV_DIR")" == "ci-doctor $CI_DOCTOR_VENV_VERSION" ]]
}

# What the ci-doctor in $1 calls itself, whatever the job's PYTHONPATH.
ci_doctor_version_of() {
  env -u PYTHONPATH -u PYTHONHOME "$1/bin/ci-doctor" --version 2>/dev/null </dev/null
}

ci_doctor_refuse() {
  echo "ci-doctor: $1" >&2
  return 2
}

# shellcheck source-path=SCRIPTDIR source=make_venv.bash
. "$CI_DOCTOR_LIB/make_venv.bash"
