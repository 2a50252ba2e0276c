# SPDX-License-Identifier: Apache-2.0
"""The facts of `ci-doctor pytest`. Pure."""

from msgspec import Struct

from ci_doctor.model.facts import Facts


class AttemptFacts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt of a test.

    run: why it was made (`suite`, `rest`, `alone`, `order`, `new`, `baseline`). outcome: `passed`,
    `failed`, `error`, `skipped`, `xfailed`, `xpassed`, `crashed`, `timeout` or `lost`. index: it was its
    process's nth test. worker: of pytest-xdist. seed: of pytest-randomly. hash_seed: PYTHONHASHSEED.
    started_at: RFC 3339 in UTC. traceback and output are bounded. log: what its process wrote.
    """

    run: str
    outcome: str
    duration_s: float | None = None
    started_at: str | None = None
    index: int | None = None
    worker: str | None = None
    seed: int | None = None
    hash_seed: str | None = None
    message: str | None = None
    file: str | None = None
    line: int | None = None
    traceback: str | None = None
    output: str | None = None
    log: str | None = None


class TallyFacts(Struct, frozen=True, kw_only=True):
    """Controlled runs of one test under one condition: some ended in neither way."""

    runs: int
    passed: int
    failed: int


class ExplanationFacts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a test is flaky, by `--explain-flaky`.

    kind: None if no condition decides how it ends. culprit: the test or the condition. left: what the
    culprit leaves, in sentences. reproduce, control: shell commands, the second one of which ends in
    the opposite way. plain_runs: runs alone with nothing controlled, plain_failures of which failed.
    is_searched: false if the time was over before all conditions were tried. alone: all runs with
    nothing but seeds controlled. with_cause, without: those with the culprit, and those of `control`.
    """

    runs: int
    duration_s: float
    kind: str | None = None
    culprit: str | None = None
    left: tuple[str, ...] = ()
    reproduce: str | None = None
    control: str | None = None
    plain_runs: int = 0
    plain_failures: int = 0
    is_searched: bool = True
    reason: str | None = None
    alone: TallyFacts | None = None
    with_cause: TallyFacts | None = None
    without: TallyFacts | None = None


class TestFacts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A test that did not simply pass.

    verdict: as of a run. why: one clause. cause: the root cause in what it printed, in words. alike:
    tests that fail for the same reason, and ran again in its place.
    """

    __test__ = False  # no class of tests, whatever its name

    test: str
    verdict: str
    why: str
    attempts: tuple[AttemptFacts, ...]
    order_dependent: bool = False
    alike: tuple[str, ...] = ()
    passes_at_base: bool | None = None
    is_new: bool = False
    quarantined: bool = False
    cause: str | None = None
    explanation: ExplanationFacts | None = None


class SessionFacts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One process of pytest with its workers. kind: why it was started. how: how it ended."""

    kind: str
    how: str
    duration_s: float
    tests: int
    log: str | None = None
    seed: int | None = None
    hash_seed: str | None = None


class PytestFacts(Facts, frozen=True, kw_only=True):
    """counts: tests by verdict; `skipped` ones are counted apart. tests: those that did not simply pass.

    problems: why the run is no whole evidence. base: the commit of `--baseline`. received: the signal
    that ended the run. rerun_budget_s: the time for all reruns. not_rerun: failed tests for whose reruns
    it was not enough.
    """

    counts: dict[str, int]
    tests: tuple[TestFacts, ...]
    sessions: tuple[SessionFacts, ...]
    python: str | None
    pytest: str | None
    interpreter: str
    plugins: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    base: str | None = None
    new_tests: tuple[str, ...] = ()
    received: str | None = None
    rerun_budget_s: float | None = None
    not_rerun: tuple[str, ...] = ()
