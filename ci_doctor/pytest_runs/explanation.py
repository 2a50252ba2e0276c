# SPDX-License-Identifier: Apache-2.0
"""Pure. What the trials of a test show: the kind of its flakiness with the culprit, in the report too."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.model.binomial import lower_limit, upper_limit
from ci_doctor.model.outcome import Evidence, Finding, Rule, Severity, ShellCommand
from ci_doctor.pytest_runs.trial import Ending, FlakyTrial

# --- the rules of findings about why a test is flaky ---

KIND: Final = Rule(
    id="test-run/flaky-kind",
    severity=Severity.NOTE,
    meaning="`--explain-flaky` found what decides whether a test passes: runs with it and without it "
    "end in opposite ways, again and again.",
    remedy="Run the command of the finding to see the test fail, and mend it as the kind says.",
)
NO_KIND: Final = Rule(
    id="test-run/flaky-kind-unknown",
    severity=Severity.NOTE,
    meaning="`--explain-flaky` changed one condition after the other, and none of them decides whether "
    "a test passes. The finding says how often it failed with nothing controlled, and which failure "
    "rate that excludes.",
    remedy="Give it more time with `--explain-budget`, or look for what no condition reaches: the "
    "kernel's random numbers, another service's answers, the hardware.",
)

RULES: Final = (KIND, NO_KIND)


# --- the kinds of flakiness: what each means, and how it is mended ---
# Victim, brittle, polluter and state-setter are the words of Shi et al., "iFixFlakies: a framework
# for automatically fixing order-dependent flaky tests" (ESEC/FSE 2019, doi:10.1145/3338906.3338925).
# The other kinds follow the root causes of Luo et al., "An empirical analysis of flaky tests" (FSE
# 2014, doi:10.1145/2635868.2635920).


class FlakyKind(StrEnum):
    """What decides between passing and failing.

    The first six are victims: another test leaves something behind.
    """

    STATE = "state"
    ENVIRONMENT = "environment"
    DIRECTORY = "directory"
    CONCURRENCY = "concurrency"
    PROCESS = "process"
    FILE = "file"
    IMPORT = "import"
    BRITTLE = "brittle"
    EARLIER_RUN = "earlier-run"
    HASH_SEED = "hash-seed"
    RANDOM_SEED = "random-seed"
    TIME_ZONE = "time-zone"
    CLOCK = "clock"
    LOAD = "load"
    PORT = "port"
    NETWORK = "network"


class KindMeaning(Struct, frozen=True, kw_only=True):
    """What a kind is, in a sentence, which runs show it, and how to mend it.

    command: the form of the command that shows it. PLUGIN stands for the variables and the option
    that bring in our plugin with the conditions of a trial.
    """

    meaning: str
    shown_by: str
    mend: str
    command: str


_AFTER = "It fails after the polluter. It passes without it, and if the item is put back."

_ORDER = "pytest POLLUTER TEST"

MEANINGS: dict[FlakyKind, KindMeaning] = {
    FlakyKind.STATE: KindMeaning(
        meaning="Another test changes a variable, an attribute or a cache that this test reads.",
        shown_by=_AFTER,
        mend="Let the polluter change it through `monkeypatch.setattr`, or reset it in a fixture.",
        command=_ORDER,
    ),
    FlakyKind.ENVIRONMENT: KindMeaning(
        meaning="Another test sets or removes an environment variable that this test reads.",
        shown_by=_AFTER,
        mend="Let the polluter use `monkeypatch.setenv` or `monkeypatch.delenv`.",
        command=_ORDER,
    ),
    FlakyKind.DIRECTORY: KindMeaning(
        meaning="Another test changes the working directory, and this test uses relative paths.",
        shown_by=_AFTER,
        mend="Let the polluter use `monkeypatch.chdir`.",
        command=_ORDER,
    ),
    FlakyKind.CONCURRENCY: KindMeaning(
        meaning="Another test leaves a thread running, or an event loop closed or replaced.",
        shown_by="It passes if the polluter starts no thread, or if the event loop is put back.",
        mend="Join the thread, or close the loop, in the polluter's fixture.",
        command=_ORDER,
    ),
    FlakyKind.PROCESS: KindMeaning(
        meaning="Another test leaves a process running that this test meets.",
        shown_by="It passes after the polluter if that process is ended first.",
        mend="End the process and wait for it in the polluter's fixture.",
        command=_ORDER,
    ),
    FlakyKind.FILE: KindMeaning(
        meaning="Another test leaves, changes or removes a file that this test finds.",
        shown_by="It passes after the polluter if the file is put back.",
        mend="Let the polluter write below `tmp_path`.",
        command=_ORDER,
    ),
    FlakyKind.IMPORT: KindMeaning(
        meaning="Importing another test file changes something that this test reads.",
        shown_by="It fails if that file is only collected, and passes if it is not.",
        mend="Move what the file does when it is imported into a fixture.",
        command="PLUGIN pytest FILE TEST",
    ),
    FlakyKind.BRITTLE: KindMeaning(
        meaning="It passes only after another test that sets up what it needs.",
        shown_by="It passes after the state-setter and fails without it.",
        mend="Let a fixture of this test set up what it needs.",
        command="pytest SETTER TEST passes, pytest TEST fails",
    ),
    FlakyKind.EARLIER_RUN: KindMeaning(
        meaning="An earlier run of this test leaves something that the next run meets.",
        shown_by="A second run fails where the first one passes.",
        mend="Write below `tmp_path`, or remove it in a fixture, before the test as well.",
        command="pytest TEST; pytest TEST",
    ),
    FlakyKind.HASH_SEED: KindMeaning(
        meaning="It depends on the order of a set, or on a hash of a string.",
        shown_by="The same PYTHONHASHSEED always fails, another one always passes.",
        mend="Sort before comparing, or compare sets.",
        command="PYTHONHASHSEED=N pytest TEST",
    ),
    FlakyKind.RANDOM_SEED: KindMeaning(
        meaning="It depends on numbers drawn from a random generator that nobody seeds.",
        shown_by="The same seed always fails, another one always passes.",
        mend="Pass a generator with a fixed seed, or assert what holds for each draw.",
        command="PLUGIN (seed) pytest TEST",
    ),
    FlakyKind.TIME_ZONE: KindMeaning(
        meaning="It depends on the time zone, or on the date in it.",
        shown_by="It fails in one time zone and passes in another.",
        mend="Use aware datetimes in UTC, and pass the present time as an argument.",
        command="TZ=ZONE pytest TEST",
    ),
    FlakyKind.CLOCK: KindMeaning(
        meaning="It fails if a second or a day begins while it runs.",
        shown_by="It fails if it begins just before that moment.",
        mend="Read the clock once, and pass the time as an argument.",
        command="PLUGIN (boundary) pytest TEST",
    ),
    FlakyKind.LOAD: KindMeaning(
        meaning="It waits too short, or races, if the machine is busy.",
        shown_by="It fails if its processes stand still for most of the time, as under load.",
        mend="Wait for the event itself (a join, a future, a condition), with a generous limit.",
        command="PLUGIN (slow) pytest TEST",
    ),
    FlakyKind.PORT: KindMeaning(
        meaning="It binds a fixed port that something else may hold.",
        shown_by="It fails as it did in the suite if the port is taken.",
        mend="Bind port 0 and read the port that the kernel chose.",
        command="PLUGIN (occupy) pytest TEST",
    ),
    FlakyKind.NETWORK: KindMeaning(
        meaning="It asks a service outside the test for something.",
        shown_by="It fails as it did in the suite if that service cannot be reached.",
        mend="Start the service in a fixture, or replace it by recorded answers.",
        command="PLUGIN (is_offline) pytest TEST",
    ),
}


# --- what the trials of one suspect show: a kind with its culprit, or how often it fails ---


VICTIMS: Final = frozenset(
    {
        FlakyKind.STATE,
        FlakyKind.ENVIRONMENT,
        FlakyKind.DIRECTORY,
        FlakyKind.CONCURRENCY,
        FlakyKind.PROCESS,
        FlakyKind.FILE,
        FlakyKind.IMPORT,
    }
)
CONFIDENCE: Final = 0.95
UNSEARCHED: Final = (
    "the time was over before it was known what the culprit leaves, which may be of another kind"
)
CommandOf = Callable[[FlakyTrial], str]


class Conclusion(Struct, frozen=True, kw_only=True):
    """What a plan of trials concludes of a test.

    cause ends as `expected`, and control in the opposite way. The other fields are those of `Explanation`.
    """

    kind: FlakyKind | None = None
    culprit: str | None = None
    left: tuple[str, ...] = ()
    cause: FlakyTrial | None = None
    control: FlakyTrial | None = None
    plain_runs: int = 0
    plain_failures: int = 0
    is_searched: bool = True
    reason: str | None = None

    @property
    def expected(self) -> Ending:
        """A brittle test passes by its cause, every other one fails."""
        return Ending.PASSED if self.kind is FlakyKind.BRITTLE else Ending.FAILED

    def condition(self, trial: FlakyTrial) -> FlakyTrial:
        """`trial` without fixed seeds, which make a run repeatable, and are a condition of two kinds alone."""
        return replace(
            trial,
            seed=trial.seed if self.kind is FlakyKind.RANDOM_SEED else None,
            hash_seed=trial.hash_seed if self.kind is FlakyKind.HASH_SEED else None,
        )


class Tally(Struct, frozen=True, kw_only=True):
    """How many trials were made under one condition, and how their target ended. The others did neither."""

    runs: int = 0
    passed: int = 0
    failed: int = 0


NO_TRIALS: Final = Tally()


class Explanation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a test is flaky, by `--explain-flaky`, as it stands in the report.

    runs, duration_s: the trials behind it, and their time. kind: None if no condition decides how it ends.
    culprit: the test, the condition or the address that decides it. left: a sentence for each thing that the
    culprit leaves and that matters. reproduce, control: shell commands, the second one of which ends in
    the opposite way. plain_runs: runs alone with nothing controlled, plain_failures of which failed.
    is_searched: each condition was tried, and each item that the culprit leaves; otherwise the time was over
    before. reason: why nothing could be tried. alone: all runs with nothing but seeds controlled. with_cause,
    without: those with the culprit, and those of `control`.
    """

    runs: int
    duration_s: float
    kind: FlakyKind | None = None
    culprit: str | None = None
    left: tuple[str, ...] = ()
    reproduce: str | None = None
    control: str | None = None
    plain_runs: int = 0
    plain_failures: int = 0
    is_searched: bool = True
    reason: str | None = None
    alone: Tally = NO_TRIALS
    with_cause: Tally = NO_TRIALS
    without: Tally = NO_TRIALS

    @property
    def needs_order(self) -> bool:
        """Whether it fails after other tests and passes without them, which repeated runs confirmed."""
        return self.kind in VICTIMS


def explained_by(
    found: Conclusion,
    ended: Sequence[tuple[FlakyTrial, Ending]],
    duration_s: float,
    command_of: CommandOf,
) -> Explanation:
    """`found` with what the trials that `ended` add up to; `command_of` gives the shell command of a trial."""

    def tally(wanted: FlakyTrial | None) -> Tally:
        if wanted is None:
            return NO_TRIALS
        same = found.condition(wanted)
        return _tally([ending for trial, ending in ended if found.condition(trial) == same])

    return Explanation(
        runs=len(ended),
        duration_s=round(duration_s, 3),
        kind=found.kind,
        culprit=found.culprit,
        left=found.left,
        reproduce=None if found.cause is None else command_of(found.cause),
        control=None if found.control is None else command_of(found.control),
        plain_runs=found.plain_runs,
        plain_failures=found.plain_failures,
        is_searched=found.is_searched,
        reason=found.reason,
        alone=_tally([ending for trial, ending in ended if trial.is_alone]),
        with_cause=tally(found.cause),
        without=tally(found.control),
    )


def _tally(endings: Sequence[Ending]) -> Tally:
    if not endings:
        return NO_TRIALS
    return Tally(
        runs=len(endings),
        passed=endings.count(Ending.PASSED),
        failed=endings.count(Ending.FAILED),
    )


# --- from explanations to findings ---


def explained_finding(test: str, explained: Explanation) -> Finding:
    """The finding about one test."""
    after = Evidence(excerpt=f"{explained.runs} runs in {explained.duration_s:.0f} s")
    if explained.kind is None or explained.reproduce is None:
        return NO_KIND.finding(f"{test}: {_nothing_found(explained)}", evidence=(after,))
    meaning = MEANINGS[explained.kind]
    excerpts = [meaning.meaning, *explained.left]
    if not explained.is_searched:
        excerpts.append(UNSEARCHED)
    if explained.control is not None:
        word = "fails" if explained.kind is FlakyKind.BRITTLE else "passes"
        excerpts.append(f"it {word} by: {explained.control}")
    excerpts.append(f"mend: {meaning.mend}")
    return KIND.finding(
        f"{test}: {_sentence(explained, explained.kind)}",
        evidence=(*(Evidence(excerpt=each) for each in excerpts), after),
        remedy=ShellCommand(explained.reproduce),
    )


def _sentence(explained: Explanation, kind: FlakyKind) -> str:
    """The kind and its evidence: how many runs with the culprit and without it ended how."""
    culprit = explained.culprit
    there, other = explained.with_cause, explained.without
    if kind is FlakyKind.BRITTLE:
        return (
            f"{kind}: it passed in {there.passed} of {there.runs} runs after {culprit}, "
            f"and in {other.passed} of {other.runs} without it"
        )
    after = f"with {culprit}"
    if kind is FlakyKind.EARLIER_RUN:
        after = "after an earlier run of itself"
    elif kind in VICTIMS:
        after = f"after {culprit}"
    return (
        f"{kind}: it failed in {there.failed} of {there.runs} runs {after}, "
        f"and in {other.failed} of {other.runs} otherwise"
    )


def _nothing_found(explanation: Explanation) -> str:
    """What is known if no condition decides the ending: how far the search came, and the rate."""
    if explanation.reason is not None:
        return f"not explained: {explanation.reason}"
    searched = "no condition decides how it ends"
    if not explanation.is_searched:
        searched = (
            "the time was over before all conditions were tried, and none is confirmed so far"
        )
    return f"{searched}; {_rate(explanation.plain_failures, explanation.plain_runs)}"


def _rate(failures: int, runs: int) -> str:
    """The failure rate that the runs alone, with nothing controlled, leave possible."""
    if not runs:
        return "no time was left to count failures"
    if failures == runs:
        return f"it failed in all of {runs} runs alone"
    if not failures:
        upper = upper_limit(0, runs, 1 - CONFIDENCE)
        return (
            f"it passed in all of {runs} runs alone, which excludes a failure rate above {upper:.1%} "
            f"({CONFIDENCE:.0%} confidence)"
        )
    lower = lower_limit(failures, runs, (1 - CONFIDENCE) / 2)
    upper = upper_limit(failures, runs, (1 - CONFIDENCE) / 2)
    return (
        f"it failed in {failures} of {runs} runs alone, a rate from {lower:.1%} to {upper:.1%} "
        f"({CONFIDENCE:.0%} confidence)"
    )
