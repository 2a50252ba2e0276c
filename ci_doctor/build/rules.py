# SPDX-License-Identifier: Apache-2.0
"""The rules of findings about a build of several jobs. Pure."""

from ci_doctor.model.finding import Rule, Severity

CAUSE = Rule(
    id="build/cause",
    severity=Severity.ERROR,
    meaning=(
        "Jobs of the build failed by this cause. It is a warning if a later attempt of each of "
        "them passed, if the pipeline lets it fail (`soft_fail`), or if somebody cancelled it."
    ),
    remedy="Do what the cause's own text says. What the change has broken stands first.",
)
NOTHING = Rule(
    id="build/nothing-to-merge",
    severity=Severity.ERROR,
    meaning="No record and no report of any job could be read, so nothing is known of the build.",
    remedy=(
        "Name the folder into which the artifacts were downloaded. The ci-doctor plugin uploads "
        "`job.json` and the reports of each of its steps."
    ),
)
MISSING_REPORT = Rule(
    id="build/missing-report",
    severity=Severity.ERROR,
    meaning=(
        "A step that was expected, a parallel job, or a job that Buildkite knows has no report. "
        "What it would have said is unknown, so the build does not pass."
    ),
    remedy=(
        "See the job's log. A lost agent and a job without the plugin leave no report; a job that "
        "still runs has none yet, so merge in a step that depends on it."
    ),
)
UNREPORTED_PASS = Rule(
    id="build/unreported-pass",
    severity=Severity.WARNING,
    meaning="Jobs passed by Buildkite's account, and left no report that says more.",
    remedy="Give the steps the ci-doctor plugin, if their reports are wanted.",
)
TOLERATED = Rule(
    id="build/tolerated-without-report",
    severity=Severity.WARNING,
    meaning="Jobs failed softly (`soft_fail`), and left no report that says why.",
    remedy="Give the steps the ci-doctor plugin, if their reports are wanted.",
)
ABSENT_ATTEMPT = Rule(
    id="build/absent-attempt",
    severity=Severity.WARNING,
    meaning=(
        "A job was retried, and its earlier attempt left no report. The last attempt decides all "
        "the same."
    ),
    remedy=(
        "Read earlier attempts too (`--include-retried-jobs`). A lost agent leaves no report; the "
        "log of the attempt is all there is."
    ),
)
CLAIMED_TWICE = Rule(
    id="build/claimed-twice",
    severity=Severity.ERROR,
    meaning=(
        "Two jobs claim to be the same attempt of the same step. Nobody knows which one counts, so "
        "the build does not pass."
    ),
    remedy=(
        "Give the jobs of a matrix labels with their values (`{{matrix}}`), give steps different "
        "keys, and do not mix the reports of several runs."
    ),
)
CONTRADICTION = Rule(
    id="build/contradiction",
    severity=Severity.ERROR,
    meaning=(
        "Two sources say different things of one job: two records, a record and a report, or a "
        "record and Buildkite's API. The worst one counts, and the build does not pass."
    ),
    remedy="See which one is stale: a checkout or a folder that is used again keeps old files.",
)
UNREADABLE = Rule(
    id="build/unreadable",
    severity=Severity.ERROR,
    meaning=(
        "A file that should hold a job's record or a report is empty, damaged, too large, of "
        "another tool or of a newer ci-doctor. What it would have said is unknown, so the build "
        "does not pass."
    ),
    remedy="Download it again, or merge with the version of ci-doctor that wrote it.",
)
INCOMPLETE = Rule(
    id="build/incomplete",
    severity=Severity.ERROR,
    meaning=(
        "Not all artifacts of the build could be read. A report may be missing without a trace, so "
        "the build does not pass."
    ),
    remedy="Run the step again. The agent's own message says what it could not do.",
)
SEVERAL_BUILDS = Rule(
    id="build/several-builds",
    severity=Severity.ERROR,
    meaning=(
        "The reports belong to different builds, or to different commits. An old report must not "
        "stand in for a missing one, so the build does not pass."
    ),
    remedy="Merge the reports of one build, from a folder that was empty before.",
)
END_UNKNOWN = Rule(
    id="build/end-unknown",
    severity=Severity.WARNING,
    meaning=(
        "A job left reports, and no `job.json` as other jobs of the build did. Its reports count; "
        "how the job itself ended is unknown."
    ),
    remedy="See how the job ended on Buildkite, and whether its last hook could upload.",
)
LISTED_ABSENT = Rule(
    id="build/listed-report-absent",
    severity=Severity.WARNING,
    meaning="A job's record names a report that was not among the files.",
    remedy="See whether the job's upload was cut short. The record's own verdict counts.",
)
API_UNREADABLE = Rule(
    id="build/api-unreadable",
    severity=Severity.WARNING,
    meaning=(
        "Buildkite's API could not be asked for the jobs of the build. Queue times are unknown, "
        "and so is a job that left no report."
    ),
    remedy=(
        "See the reason. Without the API, name the steps that must have a report with `--expect`."
    ),
)
HID_A_FAILURE = Rule(
    id="build/retry-hid-a-failure",
    severity=Severity.WARNING,
    meaning=(
        "A step failed, and passed when it was tried again. Nothing says that the cause lay "
        "outside the change: the step is flaky, or the change is."
    ),
    remedy=(
        "Look at the cause of the first attempt. Retry the exit code of infrastructure alone: "
        "`ci-doctor config retry-rules` prints the rules."
    ),
)
RETRIED_IN_VAIN = Rule(
    id="build/retried-in-vain",
    severity=Severity.NOTE,
    meaning="A failure was retried that another run does not help.",
    remedy=(
        "Retry the exit code of infrastructure alone: `ci-doctor config retry-rules` prints the "
        "rules."
    ),
)

RULES = (
    CAUSE,
    NOTHING,
    MISSING_REPORT,
    UNREPORTED_PASS,
    TOLERATED,
    ABSENT_ATTEMPT,
    CLAIMED_TWICE,
    CONTRADICTION,
    UNREADABLE,
    INCOMPLETE,
    SEVERAL_BUILDS,
    END_UNKNOWN,
    LISTED_ABSENT,
    API_UNREADABLE,
    HID_A_FAILURE,
    RETRIED_IN_VAIN,
)
# Beside one of these nobody can say that the build passed.
GAPS = frozenset(
    rule.id
    for rule in (
        NOTHING,
        MISSING_REPORT,
        CLAIMED_TWICE,
        CONTRADICTION,
        UNREADABLE,
        INCOMPLETE,
        SEVERAL_BUILDS,
    )
)
