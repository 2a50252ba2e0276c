# SPDX-License-Identifier: Apache-2.0
"""The rules of findings about the history. Pure."""

from ci_doctor.model.finding import Rule, Severity

UNREADABLE = Rule(
    id="history/unreadable-evidence",
    severity=Severity.WARNING,
    meaning=(
        "A file that may hold evidence could not be read, so its attempts are missing from the "
        "history. If no file can be read, the result is `void`."
    ),
    remedy="See what is wrong with the file, and ingest it again; what came in stays.",
)
PROVEN_FLAKY = Rule(
    id="history/proven-flaky",
    severity=Severity.WARNING,
    meaning=(
        "A test passed and failed in the same step of a commit, and its failures do not lie in a column of "
        "infrastructure. The change did not decide its result."
    ),
    remedy=(
        "`ci-doctor history test NAME` shows its attempts and causes, `ci-doctor history began "
        "NAME` when it began, and `ci-doctor history quarantine suggest` an entry that keeps it "
        "from deciding."
    ),
)
INFRA_COLUMN = Rule(
    id="history/infra-column",
    severity=Severity.NOTE,
    meaning=(
        "On one agent in one hour far more attempts failed than usual, and the same commits did "
        "well elsewhere. These failures count as infrastructure, not against the tests."
    ),
    remedy="`ci-doctor doctor` on that agent says whether it is fit.",
)
OPEN_COLUMN = Rule(
    id="history/open-column",
    severity=Severity.NOTE,
    meaning=(
        "On one agent in one hour far more attempts failed than usual, and nothing shows the same "
        "commits doing well elsewhere. The change may be the cause, so these failures count."
    ),
    remedy="Run the commit once more on another agent, and ingest the result.",
)
MOVED_TIMES = Rule(
    id="history/moved-times",
    severity=Severity.WARNING,
    meaning=(
        "Attempts of a file have times that cannot be true: the clock of the machine was fast, or never set. "
        "They count at the nearest possible time: the end of the job, the ingest, or the time of the file."
    ),
    remedy="Set the clock of the agent that wrote the file (NTP).",
)
RULES = (UNREADABLE, MOVED_TIMES, PROVEN_FLAKY, INFRA_COLUMN, OPEN_COLUMN)
