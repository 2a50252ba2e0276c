#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Finds ci-doctor, and runs it. Functions return and never exit: the agent sources the hooks.

# shellcheck source-path=SCRIPTDIR source=install.bash
. "$(dirname "${BASH_SOURCE[0]}")/install.bash"

# With -P, python3 takes no module from the checkout (and a Python before 3.11 is refused); with sys.path instead of
# PYTHONPATH, the programs that ci-doctor starts do not inherit our directory.
CI_DOCTOR_RUN='import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); runpy.run_module("ci_doctor", run_name="__main__", alter_sys=True)'

# ci_doctor_option EXIT_CODES: the value of a plugin's option as the agent hands it over, empty if it is not set.
ci_doctor_option() {
  local variable="BUILDKITE_PLUGIN_${BUILDKITE_PLUGIN_NAME:-CI_DOCTOR}_$1"
  printf '%s' "${!variable:-}"
}

# ci_doctor_find [may-install]: sets the array CI_DOCTOR to the command to run; a status other than 0 and a message if
# there is none. Only with `may-install` it uses the network, and only for the option `install`.
ci_doctor_find() {
  local executable requirement repository
  executable="$(ci_doctor_option EXECUTABLE)"
  requirement="$(ci_doctor_option INSTALL)"
  repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)"
  if [[ -n "$executable" ]]; then
    CI_DOCTOR=("$executable")
    type -P "$executable" >/dev/null && return
    echo "ci-doctor: the plugin's option \`executable\` names $executable, which is not an executable file" >&2
  elif [[ -n "$requirement" ]]; then
    ci_doctor_installed "$requirement" "${1:-}" || return
    CI_DOCTOR=("$CI_DOCTOR_VENV_DIR/bin/ci-doctor")
    return
  elif type -P ci-doctor >/dev/null; then
    CI_DOCTOR=(ci-doctor)
    return
  elif python3 -P "$CI_DOCTOR_LIB/importable.py" "$repository" >/dev/null 2>&1; then
    # shellcheck disable=SC2034 # the hooks read it
    CI_DOCTOR=(python3 -P -c "$CI_DOCTOR_RUN" "$repository")
    return
  else
    echo "ci-doctor: not found: no ci-doctor on PATH, and python3 (3.11 or newer, with ci-doctor's dependencies) cannot import it from $repository" >&2
  fi
  echo "ci-doctor: install it by the plugin's option \`install\`, or on the agent or in the step's image, or name it by the plugin's option \`executable\`" >&2
  return 2
}

# Whether the step asks for nothing before its command, so that a missing ci-doctor need not fail the job. Any other option,
# a misspelt one too, counts as asked for; so does `setup-env` in a configuration file, or in a variable.
ci_doctor_may_be_missing() {
  local prefix="BUILDKITE_PLUGIN_${BUILDKITE_PLUGIN_NAME:-CI_DOCTOR}_" name folder="$PWD" file text
  local dropped='ci[-_]doctor[^"]*"[[:space:]]*:[[:space:]]*[{][^}]*null'
  # The agent hands over nothing of a configuration with a null in it.
  [[ -n "${BUILDKITE_PLUGIN_CONFIGURATION+x}" || ! "${BUILDKITE_PLUGINS:-}" =~ $dropped ]] || return 1
  while read -r name; do
    [[ "$name" == "$prefix"* || "$name" == CI_DOCTOR_SETUP_ENV_* ]] || continue
    case "${name#"$prefix"}" in
      CACHE_STRICT | SETUP_ENV) ;;
      DIAGNOSE | DIAGNOSE_[0-9]* | EXIT_CODES | WATCH | ANNOTATE | REPORT_DIR | CACHE | CACHE_*) ;;
      *) return 1 ;;
    esac
  done < <(compgen -e)
  [[ "$(ci_doctor_option CACHE_STRICT)" =~ ^(false)?$ ]] || return 1
  case "$(ci_doctor_option SETUP_ENV)" in
    false) return ;;
    "") ;;
    *) return 1 ;;
  esac
  while [[ -n "$folder" ]]; do
    for file in "$folder"/ci-doctor.toml "$folder"/pyproject.toml; do
      [[ -e "$file" ]] || continue
      text="$(<"$file")" 2>/dev/null || return 1
      [[ "$text" != *setup-env* || ("$file" == */pyproject.toml && "$text" != *ci-doctor*) ]] || return 1
    done
    [[ ! -e "$folder/.git" ]] || return 0
    folder="${folder%/*}"
  done
}

# Has the agent's shell become `ci-doctor run --watch`, which no hook of a plugin could do in its place.
ci_doctor_watch() {
  printf -v CI_DOCTOR_WATCHER '%q ' "${CI_DOCTOR[@]}"
  export CI_DOCTOR_WATCHER CI_DOCTOR_BASH_ENV="${BASH_ENV:-}"
  export BASH_ENV="$CI_DOCTOR_LIB/watch.bash"
}

# Saves the caches that the option `cache` names, and says whether the restored ones have paid. The agent hands a mapping
# over as a variable for each of its keys.
ci_doctor_save_caches() {
  ci_doctor_was_cancelled && return
  local prefix="BUILDKITE_PLUGIN_${BUILDKITE_PLUGIN_NAME:-CI_DOCTOR}_CACHE" name wanted=""
  while read -r name; do
    [[ "$name" == "$prefix" || "$name" == "${prefix}_"* ]] && wanted=yes
  done < <(compgen -e)
  [[ -n "$wanted" && "$(ci_doctor_option CACHE)" != false ]] && ci_doctor_find 2>/dev/null || return 0
  echo "~~~ :stethoscope: ci-doctor: saving caches" >&2
  ci_doctor_bounded "${CI_DOCTOR_CACHE_SECONDS:-300}" "${CI_DOCTOR[@]}" plugin post-command >&2 ||
    echo "ci-doctor: the caches are not saved (status $?)" >&2
}

# Whether the process $1 runs. One that has ended and that nobody waits for is there all the same, in a container whose
# first process reaps no orphans.
ci_doctor_lives() {
  local status=""
  kill -0 "$1" 2>/dev/null || return
  read -r status 2>/dev/null <"/proc/$1/stat"
  [[ "$status" != *") Z "* ]]
}

# Whether the job was cancelled: the agent's grace period is for publishing then. Who cancelled it knows why it ended;
# one that ran out of time is no such job.
ci_doctor_was_cancelled() {
  [[ "${BUILDKITE_JOB_CANCELLED:-}" == true && "${BUILDKITE_JOB_TIMED_OUT:-}" != true ]]
}

# ci_doctor_bounded SECONDS COMMAND...: runs a command without stdin, and gives back its status; after SECONDS it ends
# the command. A process group of its own, because what a command leaves behind holds its stdout, and so the hook; the
# agent's signals are handed on, because they go to the hook's group. Who kills the hook ends the command too.
ci_doctor_bounded() (
  limit="$1"
  [[ "$limit" =~ ^[1-9][0-9]*$ ]] || limit=120
  shift
  SECONDS=0
  exec 3>&2 2>/dev/null # the shell's own words about jobs that were killed
  set +e -m
  "$@" </dev/null 2>&3 3>&- &
  command=$!
  owner=$BASHPID
  {
    # `read` of a pipe that nobody writes to, because `sleep` may be missing.
    exec 8<> <(:)
    until ((SECONDS >= limit)); do
      read -r -t 1 -u 8 _
      (($? > 128)) || exit # it failed, and no time is up
      ci_doctor_lives "$owner" || break # with SIGKILL, which it cannot hand on
    done
    ci_doctor_lives "$owner" && echo "ci-doctor: it is stopped, because it did not end within $limit s" >&3
    limit=$SECONDS
    kill -TERM -- "-$command"
    until ((SECONDS >= limit + 5)) || ! kill -0 -- "-$command"; do
      read -r -t 1 -u 8 _
    done
    kill -KILL -- "-$command"
  } </dev/null >/dev/null 9>&- &
  clock=$!
  set +m
  interrupted=yes
  trap 'interrupted=yes; kill -TERM -- "-$command"' TERM INT HUP
  # A signal ends `wait` with a status of its own; bash keeps that of a command which has ended meanwhile.
  while [[ -n $interrupted ]]; do
    interrupted=
    wait "$command"
    status=$?
  done
  kill -KILL -- "-$clock" "-$command"
  exit "$status"
)
