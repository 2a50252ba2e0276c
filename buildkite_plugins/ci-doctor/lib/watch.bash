#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every bash of the job reads this file first ($BASH_ENV). The one that the agent starts for the step's command becomes
# `ci-doctor run --watch`, which starts it again; every other one goes on as without it.

if [[ -n "${BASH_EXECUTION_STRING:-}" && -n "${BUILDKITE_COMMAND:-}" && "$BASH_EXECUTION_STRING" == *"$BUILDKITE_COMMAND" ]]; then
  ci_doctor_words="${CI_DOCTOR_WATCHER:-ci-doctor}"
  # What the job starts is not to be watched a second time.
  if [[ -n "${CI_DOCTOR_BASH_ENV:-}" ]]; then BASH_ENV="$CI_DOCTOR_BASH_ENV"; else unset BASH_ENV; fi
  unset CI_DOCTOR_WATCHER CI_DOCTOR_BASH_ENV
  # The hook has prepared what the step asks for. The option -e is the agent's.
  ci_doctor_flags="${-//[^eux]/}"
  eval "exec $ci_doctor_words run --watch --no-setup-env -- \"\$BASH\" \"-${ci_doctor_flags}c\" \"\$BASH_EXECUTION_STRING\""
elif [[ -n "${CI_DOCTOR_BASH_ENV:-}" ]]; then
  # shellcheck disable=SC1090 # the job's own
  . "$CI_DOCTOR_BASH_ENV"
fi
