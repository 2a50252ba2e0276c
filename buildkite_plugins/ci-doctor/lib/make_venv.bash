#!/bin/bash
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Makes the virtual environment of install.bash, one job at a time, in a subshell with the variables requirement,
# version, source, sha256, python and place of its caller.

ci_doctor_install() {
  if ! mkdir -p "$place" 2>/dev/null || ! [[ -w "$place" ]]; then
    ci_doctor_refuse "$place cannot be written: name another directory by the plugin's option \`install-dir\` or CI_DOCTOR_CACHE_DIR"
    return
  fi
  if ! ci_doctor_lock; then
    echo "ci-doctor: another job has been installing into $place for too long" >&2
    return 75
  fi
  # Another job may have done it meanwhile.
  ci_doctor_is_usable && return
  echo "ci-doctor: installing $requirement into $place, once per agent" >&2
  ci_doctor_bounded "${CI_DOCTOR_INSTALL_SECONDS:-900}" ci_doctor_make_venv && return
  local status=$?
  ((status == 2)) && return 2
  echo "ci-doctor: $requirement could not be installed (see above): it needs a package index, or wheels that PIP_FIND_LINKS or UV_FIND_LINKS names; a commit needs its repository, too" >&2
  return 75
}

# Until this subshell ends. Without flock(1) the lock is a directory with the owner's process id in it.
ci_doctor_lock() {
  local limit="${CI_DOCTOR_INSTALL_SECONDS:-900}"
  if type -P flock >/dev/null; then
    exec 9>"$place/lock"
    flock -n 9 && return
    echo "ci-doctor: waiting for another job that installs it" >&2
    flock -w "$limit" 9
    return
  fi
  SECONDS=0
  until mkdir "$place/lock.d" 2>/dev/null; do
    ci_doctor_remove_stale_lock && continue
    ((SECONDS < limit)) || return
    read -r -t 1 _ <> <(:)
  done
  trap 'rm -rf "$place/lock.d"' EXIT
  echo "$BASHPID $(uname -n)" >"$place/lock.d/owner"
}

# Status 0 if the lock is gone. One without an owner may be a moment old; the owner on another machine cannot be seen.
ci_doctor_remove_stale_lock() {
  local pid="" host=""
  read -r pid host 2>/dev/null <"$place/lock.d/owner"
  if [[ -n "$pid" && "$host" == "$(uname -n)" ]]; then
    ci_doctor_lives "$pid" && return 1
  elif [[ -z "$(find "$place/lock.d" -maxdepth 0 -mmin +30 2>/dev/null)" ]]; then
    return 1
  fi
  # A rename, because another job may be removing it too.
  mv "$place/lock.d" "$place/stale.$BASHPID" 2>/dev/null && rm -rf "$place/stale.$BASHPID"
}

# Status 2 if the wheel is not the one that was named, or holds something else than its name says.
ci_doctor_make_venv() {
  local number=1 venv target="$requirement" installed
  # Before anything is made of it: another digest ends the job here.
  if [[ -n "$source" ]]; then
    target="$(ci_doctor_fetch)" || return
  fi
  # What a killed job has left. A complete one that is broken for this job may still be in use by another.
  for venv in "$place"/venv.*; do
    [[ -e "$venv/complete" && -z "$(find "$venv/complete" -mtime +0 2>/dev/null)" ]] || rm -rf "$venv"
  done
  while [[ -e "$place/venv.$number" ]]; do ((number += 1)); done
  venv="$place/venv.$number"
  # Not from the checkout: uv reads the pyproject.toml there.
  mkdir "$venv" && cd "$venv" || return
  unset PYTHONPATH PYTHONHOME PIP_TARGET PIP_PREFIX PIP_USER
  ci_doctor_create "$venv" || return
  ci_doctor_add "$venv" "$target" || return
  rm -rf "$place/wheel"
  installed="$("$venv/bin/python" -I "$CI_DOCTOR_LIB/installed_version.py" "$version")" || return
  if [[ "$(ci_doctor_version_of "$venv")" != "ci-doctor $installed" ]]; then
    echo "ci-doctor: the installed $venv/bin/ci-doctor does not start, or is not version $installed" >&2
    return 75
  fi
  mkdir "$venv/command" && ln -s ../bin/ci-doctor "$venv/command/ci-doctor" && : >"$venv/complete" || return
  echo "venv.$number $installed" >"$place/current.new" && mv -f "$place/current.new" "$place/current"
}

# Prints where the wheel lies. Not in the checkout, whose pyproject.toml uv would read.
ci_doctor_fetch() {
  local fetch=("$python")
  [[ "$python" == uv ]] && fetch=(uv run --quiet --no-project --python '>=3.11' python)
  rm -rf "$place/wheel" && mkdir "$place/wheel" && cd "$place/wheel" || return
  "${fetch[@]}" -I "$CI_DOCTOR_LIB/fetch_wheel.py" "$source" "$sha256" "$place/wheel" && return
  local status=$?
  rm -rf "$place/wheel"
  return "$status"
}

ci_doctor_create() {
  if [[ "$python" == uv ]]; then
    uv venv --quiet --no-project --clear --python '>=3.11' "$1" >&2
  else
    "$python" -I -m venv --clear "$1" >&2
  fi
}

ci_doctor_add() {
  if [[ "$python" == uv ]]; then
    uv pip install --quiet --python "$1/bin/python" "$2" >&2
  else
    "$1/bin/python" -I -m pip --quiet --disable-pip-version-check --no-input install "$2" >&2
  fi
}
