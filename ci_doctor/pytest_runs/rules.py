# SPDX-License-Identifier: Apache-2.0
"""The rules of findings about runs of pytest. Pure."""

from typing import Final

from ci_doctor.model.finding import Rule, Severity

FAILED: Final = Rule(
    id="test-run/failed",
    severity=Severity.ERROR,
    meaning="A test failed in the suite, and no further run proves that it is flaky. The finding says "
    "how often it failed, and where.",
    remedy="Run the command of the finding, and mend what it shows.",
)
REGRESSION: Final = Rule(
    id="test-run/regression",
    severity=Severity.ERROR,
    meaning="A test fails each time with the change, and passes at the base: it ran there "
    "(`--baseline`), or the history has enough runs of it.",
    remedy="The change between the two commits broke it. `git bisect` finds the commit.",
)
ORDER_DEPENDENT: Final = Rule(
    id="test-run/order-dependent",
    severity=Severity.ERROR,
    meaning="A test passed alone, and failed in the order of the suite, each so often that chance "
    "explains it in 2 % of cases at most. A test before it leaves something behind: a variable, a module, "
    "a file, a process.",
    remedy="Find the test that does it, and have it tidy up; or give the test what it needs in a "
    "fixture.",
)
FLAKY: Final = Rule(
    id="test-run/flaky",
    severity=Severity.WARNING,
    meaning="A test failed and passed with the same code and under one condition: in the order of the "
    "suite, or alone.",
    remedy="Mend the test, or list it in `ci-doctor-quarantine.toml` with an owner and a date. "
    "`--fail-on-flaky` makes it a failure.",
)
INFRA: Final = Rule(
    id="test-run/infra",
    severity=Severity.WARNING,
    meaning="Each failure of a test names a full disk. At the end of the run a disk that the tests write "
    "to was full: the working directory's, that of temporary files, or that of the named path.",
    remedy="Free space on that disk, or run the job again on another agent.",
)
NO_RESULT: Final = Rule(
    id="test-run/no-result",
    severity=Severity.WARNING,
    meaning="A test has no result: its process ended by `os._exit`, or a worker was lost, or pytest "
    "stopped before it. Nothing is known of the test, so the run is not green.",
    remedy="Look at the log of the process. A test must not end the interpreter.",
)
NOT_WHOLE: Final = Rule(
    id="test-run/not-whole",
    severity=Severity.WARNING,
    meaning="The run is no whole evidence: nothing was collected, a file cannot be collected or loads for too "
    "long, pytest failed itself, or tests have no result.",
    remedy="Mend what the finding names, and run it again.",
)
UNEXPLAINED_END: Final = Rule(
    id="test-run/unexplained-end",
    severity=Severity.ERROR,
    meaning="pytest ended with a failure that no test explains: a plugin's own (coverage), an exit "
    "status that something changed, or a crash after the last test.",
    remedy="Look at the end of what pytest wrote.",
)
LEFT_PROCESSES: Final = Rule(
    id="test-run/left-processes",
    severity=Severity.NOTE,
    meaning="Processes of the tests were alive two seconds after the end of pytest. ci-doctor stopped "
    "them.",
    remedy="Stop them in the fixture that starts them, after its `yield`.",
)
ALL_SKIPPED: Final = Rule(
    id="test-run/all-skipped",
    severity=Severity.WARNING,
    meaning="Every test was skipped, so the run is green and shows nothing.",
    remedy="Look at the reasons: `-rs`.",
)
TOO_MANY_FAILURES: Final = Rule(
    id="test-run/too-many-failures",
    severity=Severity.NOTE,
    meaning="More than 50 tests failed, so none was run again: so many are no flakes.",
    remedy="Mend what they share first; the root cause of each is in the report.",
)
RERUN_TIME: Final = Rule(
    id="test-run/rerun-budget",
    severity=Severity.NOTE,
    meaning="The time for reruns was over before each failed test had run again as often as is usual. "
    "Such a test stays failed.",
    remedy="Mend what many tests fail for, or give more time: `--rerun-budget 10m`.",
)
QUARANTINED: Final = Rule(
    id="test-run/quarantined",
    severity=Severity.NOTE,
    meaning="A test failed that `ci-doctor-quarantine.toml` lists. It does not decide.",
    remedy="Its owner mends it before the date of the entry.",
)
QUARANTINE_OVER: Final = Rule(
    id="test-run/quarantine-over",
    severity=Severity.WARNING,
    meaning="An entry of `ci-doctor-quarantine.toml` is past its date `until`, so the test decides again.",
    remedy="Mend the test and remove the entry, or set a new date.",
)
QUARANTINE_UNUSED: Final = Rule(
    id="test-run/quarantine-unused",
    severity=Severity.WARNING,
    meaning="An entry of `ci-doctor-quarantine.toml` matches no test of the run of all tests.",
    remedy="Remove the entry, or correct the name of the test.",
)
QUARANTINE_WIDE: Final = Rule(
    id="test-run/quarantine-wide",
    severity=Severity.WARNING,
    meaning="An entry of `ci-doctor-quarantine.toml` is a pattern without a name, or matches more than half of "
    "the tests. They run, and none of them decides: the run is green whatever the change breaks.",
    remedy="Name the flaky tests, one entry for each.",
)
QUARANTINE_LONG: Final = Rule(
    id="test-run/quarantine-long",
    severity=Severity.WARNING,
    meaning="An entry of `ci-doctor-quarantine.toml` holds for more than 90 days: nobody looks at the test until then.",
    remedy="Set a date within 90 days. Its owner may set the next one then.",
)
BASELINE: Final = Rule(
    id="test-run/baseline",
    severity=Severity.WARNING,
    meaning="The base (`--baseline`) shows nothing: its tests could not be run, or they loaded files "
    "of the change.",
    remedy="A package that is installed in editable form may be loaded from the change. Give the base "
    "an environment of its own with `--python`, or put the source folder on PYTHONPATH by a "
    "relative path.",
)
QUARANTINE_GREEN: Final = Rule(
    id="test-run/quarantine-green",
    severity=Severity.NOTE,
    meaning="The tests of an entry of `ci-doctor-quarantine.toml` have been green for long. The history "
    "has runs that span 14 days or more. At most 5 % of them fail, by the upper end of a 95 % "
    "interval.",
    remedy="Remove the entry, so that the test decides again.",
)
HISTORY: Final = Rule(
    id="test-run/history",
    severity=Severity.NOTE,
    meaning="The history gave no answer about earlier runs, so the run was judged without it.",
    remedy="`ci-doctor history flaky` shows whether the database can be read.",
)
NEW_TESTS: Final = Rule(
    id="test-run/new-tests",
    severity=Severity.NOTE,
    meaning="The base or the history does not have these tests. `--new-tests N` ran them N times.",
)

RULES: Final = (
    FAILED,
    REGRESSION,
    ORDER_DEPENDENT,
    FLAKY,
    INFRA,
    NO_RESULT,
    NOT_WHOLE,
    UNEXPLAINED_END,
    LEFT_PROCESSES,
    ALL_SKIPPED,
    TOO_MANY_FAILURES,
    RERUN_TIME,
    QUARANTINED,
    QUARANTINE_OVER,
    QUARANTINE_UNUSED,
    QUARANTINE_WIDE,
    QUARANTINE_LONG,
    QUARANTINE_GREEN,
    BASELINE,
    HISTORY,
    NEW_TESTS,
)
