# SPDX-License-Identifier: Apache-2.0
"""The rules of findings about the logs of a finished job. Pure."""

from typing import Final

from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

OLDER_LOG: Final = Rule(
    id="finished-job/older-log",
    severity=Severity.NOTE,
    meaning="A log that the plugin's option `diagnose` names was written before the job began: an "
    "earlier job left it in the same checkout. It says nothing about this job and is not read.",
    remedy="Write the logs to a folder of their own for each job, or let the agent clean the "
    "checkout (`BUILDKITE_GIT_CLEAN_FLAGS`).",
)
UNDATED_LOG: Final = Rule(
    id="finished-job/undated-log",
    severity=Severity.NOTE,
    meaning="Nobody kept when the job began, so a log that the option `diagnose` names may be an "
    "earlier job's. It is read, and changes no exit code.",
    remedy="Let `pre-command` and `post-command` see the same report directory, on a disk that they "
    "can write.",
)
NO_OUTPUT: Final = Rule(
    id="finished-job/no-output",
    severity=Severity.NOTE,
    meaning="What the command itself wrote could not be read: a hook does not see the job's log. "
    "The diagnosis rests on the logs that are named, and a failure that stands in the job's log "
    "alone is not known to it.",
    remedy="Let the command write to a log that `diagnose` names (`2>&1 | tee build.log` under `set "
    "-o pipefail`), run it by `ci-doctor run --diagnose -- CMD`, start the agent with "
    "`enable-job-log-tmpfile`, or give the job a BUILDKITE_API_TOKEN with the scope "
    "`read_build_logs`.",
)

RULES: Final = (OLDER_LOG, UNDATED_LOG, NO_OUTPUT)
