#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Finds ci-doctor, without the network. Functions return and never exit: the agent sources the hooks.

# With -P, python3 takes no module from the checkout (and a Python before 3.11 is refused); with sys.path instead of
# PYTHONPATH, the programs that ci-doctor starts do not inherit our directory.
CI_DOCTOR_RUN='import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); runpy.run_module("ci_doctor", run_name="__main__", alter_sys=True)'
CI_DOCTOR_TRY='import sys; sys.path.insert(0, sys.argv.pop(1)); import ci_doctor.cli'

# Sets the array CI_DOCTOR to the command to run; status 2 and a message where there is none.
ci_doctor_find() {
  local option="BUILDKITE_PLUGIN_${BUILDKITE_PLUGIN_NAME:-CI_DOCTOR}_EXECUTABLE" repository
  local executable="${!option:-}"
  repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)"
  if [[ -n "$executable" ]]; then
    CI_DOCTOR=("$executable")
    type -P "$executable" >/dev/null && return
    echo "ci-doctor: the plugin's option \`executable\` names $executable, which is not an executable file" >&2
  elif type -P ci-doctor >/dev/null; then
    CI_DOCTOR=(ci-doctor)
    return
  elif python3 -P -c "$CI_DOCTOR_TRY" "$repository" >/dev/null 2>&1; then
    # shellcheck disable=SC2034 # the hooks read it
    CI_DOCTOR=(python3 -P -c "$CI_DOCTOR_RUN" "$repository")
    return
  else
    echo "ci-doctor: not found: no ci-doctor on PATH, and python3 (3.11 or newer, with ci-doctor's dependencies) cannot import it from $repository" >&2
  fi
  echo "ci-doctor: install it on the agent or in the step's image, or name it by the plugin's option \`executable\`" >&2
  return 2
}
