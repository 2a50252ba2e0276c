# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and files: a run of pytest, from all tests to what failed once more, and to the outcome."""

import datetime as dt
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.diagnosis.diagnosis import diagnose_logs, load_rules
from ci_doctor.diagnosis.log_rules import RuleSet
from ci_doctor.diagnosis.log_text import LogText
from ci_doctor.errors import CiDoctorError
from ci_doctor.model.cause import Cause, FailureClass, title_of
from ci_doctor.model.outcome import Outcome, Verdict, is_green
from ci_doctor.pytest_runs.attempt import (
    PytestOutcome,
    PytestSession,
    RunKind,
    TestAttempt,
    collected_tests,
    missing_tests,
)
from ci_doctor.pytest_runs.findings import (
    answered_outcome,
    interrupted_outcome,
    outcome_of,
    refused_outcome,
)
from ci_doctor.pytest_runs.plan import PytestPlan, find_interpreter, rerun_args, with_options
from ci_doctor.pytest_runs.process import PytestRunner
from ci_doctor.pytest_runs.quarantine import (
    Quarantine,
    QuarantineEntry,
    quarantine,
    read_quarantine,
)
from ci_doctor.pytest_runs.reruns import (
    LEAST_TIME_S,
    MOST_RERUN,
    OF_THE_SUITE,
    BaseCheckout,
    BaseCommit,
    Reruns,
    SuiteFailure,
    base_checkout,
    base_commit,
    base_problem,
    find_new_tests,
    retried_failures,
    run_at_base,
    run_new_tests,
    suite_failures,
)
from ci_doctor.pytest_runs.result import (
    Circumstances,
    PytestResult,
    RunProblem,
    TestJudgement,
    is_usage_error,
    judge_tests,
    narrowed_by,
    not_run_tests,
    question_of,
    run_problems,
)
from ci_doctor.system.files.access import make_directory, open_closed_streams, own_directory
from ci_doctor.system.files.disks import is_full
from ci_doctor.system.processes.interruption import Interruption
from ci_doctor.system.secrets.private_keys import shortened_words
from ci_doctor.system.secrets.redaction import Redactor, redact_files

# --- what a person asks of `ci-doctor pytest` ---

# Of tests that fail. 1 alone would call a test that fails half of the time `failed` in every second
# run; each further one doubles the cost of a real failure.
DEFAULT_RERUNS = 2
QUARANTINE_FILE = "ci-doctor-quarantine.toml"


class PytestRequest(Struct, frozen=True, kw_only=True):
    """args: for pytest. python: the interpreter, as the user wrote it; None for the default.

    environ: the environment of pytest. reruns: of a test that fails, at most. rerun_s: for all reruns together; None for a time by that of the suite.
    is_rerun_in_process: by pytest-rerunfailures. timeout_s: of one test.
    new_tests: how often a test runs that the base does not have. baseline: a commit of git. on_stderr:
    what pytest writes goes to stderr. rules: a repository's own about log lines. explain_s: how long
    flaky tests may be explained for, None for not at all.
    """

    args: tuple[str, ...]
    environ: Mapping[str, str]
    directory: Path
    python: str | None = None
    reruns: int = DEFAULT_RERUNS
    rerun_s: float | None = None
    is_rerun_in_process: bool = False
    timeout_s: float | None = None
    new_tests: int = 1
    baseline: str | None = None
    on_stderr: bool = False
    rules: tuple[Path, ...] = ()
    explain_s: float | None = None


# --- runs all tests, and after a crash those that it kept from running ---

# Processes after the first one. A suite that crashes more often is broken.
MOST_RESTS: Final = 20


def run_all(
    runner: PytestRunner, plan: PytestPlan, before: Sequence[PytestSession]
) -> tuple[PytestSession, ...]:
    """The run by `plan` after those `before` it, and after each crash one of the tests not yet tried."""
    sessions = [*before, runner.run(plan, is_shown=True)]
    while len(sessions) <= MOST_RESTS and not runner.is_interrupted:
        rest = rest_after(sessions)
        if not rest:
            break
        further = replace(plan, kind=RunKind.REST, tests=rest, without=())
        sessions.append(runner.run(further, is_shown=True))
    return tuple(sessions[len(before) :])


def further_plan(plan: PytestPlan, sessions: Sequence[PytestSession]) -> PytestPlan | None:
    """The run of what a failure kept from running that turned out to be none; None if nothing is left.

    Pure. Without the options that stop at a failure, or that leave out what passed before.
    """
    if len(sessions) > MOST_RESTS:
        return None
    rest = replace(plan, kind=RunKind.REST)
    if narrowed_by(sessions) is not None:
        tried = dict.fromkeys(each.test for session in sessions for each in session.attempts)
        return replace(rest, without=tuple(tried))
    missing = not_run_tests(sessions)
    return replace(rest, tests=missing) if missing else None


def rest_after(sessions: list[PytestSession]) -> tuple[str, ...]:
    """The tests that a crash of the last session kept from running; empty if none is to be run.

    Pure. A session that ended in order ran all that it was to run. One that tried no test would crash
    again before its first.
    """
    last = sessions[-1]
    if last.finished is not None or not last.attempts:
        return ()
    failures = sum(not each.is_green for session in sessions for each in session.attempts)
    if last.maxfail and failures >= sessions[0].maxfail:
        return ()
    return missing_tests(sessions)


# --- reads what failed tests printed for the root cause, and whether a disk of theirs is full ---

# Tests that are looked at: the others rarely say something else.
_MOST: Final = 20
_LONGEST_LINE: Final = 200
_CRASH_LOG_BYTES: Final = 64 * 1024


def find_causes(
    failures: Mapping[str, Sequence[TestAttempt]], places: Sequence[Path], rules: Sequence[Path]
) -> tuple[dict[str, str], frozenset[str]]:
    """The titles of the causes in the failed attempts of each test, and the tests whose cause lies outside.

    Those are tests whose failures all name a full disk, while one of `places` is full. places: folders
    that tests write to, whose disks were full before the tests began. Raises ConfigError if a rules
    file has a mistake. After any other problem the rest has no cause.
    """
    titles: dict[str, str] = {}
    outside = set()
    rule_set = load_rules(tuple(rules))
    for test, failed in list(failures.items())[:_MOST]:
        try:
            causes = [_cause_of(each, rule_set) for each in failed]
        except CiDoctorError:
            break
        for cause in causes:
            if cause is not None:
                line = shortened_words(cause.place.text.strip(), _LONGEST_LINE)
                # Whose assertion it is, its line does not tell, but that a test ran.
                is_assertion = cause.rule == "python/assertion"
                title = title_of(FailureClass.TEST_ASSERTION) if is_assertion else cause.title
                titles.setdefault(test, f"{title}: {line}")
        # The words alone prove nothing: a test may raise them itself. The disk must say so too.
        if causes and all(_is_full_disk(cause, places) for cause in causes):
            outside.add(test)
    return titles, frozenset(outside)


def _cause_of(attempt: TestAttempt, rules: RuleSet) -> Cause | None:
    # The lines that pytest marks as the error: source code may hold the words of one that never came.
    traceback = attempt.traceback or ""
    marked = [line[1:].strip() for line in traceback.splitlines() if line.startswith("E ")]
    parts = [
        attempt.output or "",
        "\n".join(marked) if marked else traceback,
        attempt.message or "",
    ]
    # What a process printed before it died is in its log alone.
    if attempt.outcome in {PytestOutcome.CRASHED, PytestOutcome.LOST} and attempt.log:
        parts.insert(0, _end_of(Path(attempt.log)))
    text = "\n".join(part for part in parts if part) + "\n"
    content = text.encode("utf-8", "replace")
    # In memory, since the disk may be what is full.
    with FileIO(os.memfd_create("failure"), "r+b") as file:
        file.write(content)
        return diagnose_logs([LogText("failure", file, len(content))], rules).cause


def _is_full_disk(cause: Cause | None, places: Sequence[Path]) -> bool:
    return cause is not None and cause.class_ == FailureClass.DISK and any(map(is_full, places))


def _end_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _CRASH_LOG_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


# --- the stages of a run, from all tests to what failed once more ---


class TestStages:
    """Runs the stages by `request`; `result` is what is known so far.

    plan: of the suite. entries: of the quarantine, today. base: the commit of `--baseline`. scratch: a folder for what is made on the way.
    tell: gets a sentence before each run.
    """

    __test__ = False  # no class of tests, whatever its name

    def __init__(  # noqa: PLR0913 - what all stages share
        self,
        request: PytestRequest,
        plan: PytestPlan,
        runner: PytestRunner,
        scratch: Path,
        tell: Callable[[str], None],
        *,
        entries: Sequence[QuarantineEntry] = (),
        today: dt.date = dt.date.max,
    ) -> None:
        self.sessions: list[PytestSession] = []
        self._request = request
        self._plan = plan
        # For runs of chosen tests: one process, none of the reports of the suite.
        self._again = plan
        self._runner = runner
        self._scratch = scratch
        self._tell = tell
        self._entries = entries
        self._today = today
        self._failures: tuple[SuiteFailure, ...] = ()
        self._known = Circumstances()
        self._reruns: Reruns | None = None
        self._base: str | None = None
        self._base_problem: str | None = None
        self._problems: list[RunProblem] = []
        temporary = Path(request.environ.get("TMPDIR") or tempfile.gettempdir())
        places = (request.directory.absolute(), temporary)
        # What is full only later, the tests themselves may have filled.
        self._full = tuple(place for place in places if is_full(place))

    def run(self, base: BaseCommit | None) -> None:
        """Run all stages, or as far as a signal lets us."""
        suite = run_all(self._runner, self._plan, [])
        self.sessions += suite
        if is_usage_error(suite[0]) or question_of(self._request.args, suite[0]) is not None:
            return
        self._again = replace(self._plan, args=rerun_args(self._plan.args, suite[0].plugins))
        try:
            self._look_again()
            self._run_what_is_left()
            is_asked = bool(self._failures) or self._request.new_tests > 1
            if base is not None and is_asked and not self._runner.is_interrupted:
                with base_checkout(base, self._scratch) as checkout:
                    self._compare(checkout)
            if not self._has_too_many:
                self._explain()
        except OSError as error:
            # A test may have removed the very directory. What is known so far stays known.
            self._problems.append(RunProblem(text=f"no further run could be started: {error}"))

    def _look_again(self) -> None:
        """Run again what failed in the suite, and has not run again so far."""
        suite = self._suite
        seen = {each.test for each in self._failures}
        self._failures = suite_failures(suite)
        counts = collected_tests(suite)
        self._known = replace(
            self._known,
            not_run=frozenset(not_run_tests(suite)),
            repeated=frozenset(name for name, count in counts.items() if count > 1),
        )
        if self._request.is_rerun_in_process or self._has_too_many:
            return
        if self._reruns is None:
            self._reruns = Reruns(
                self._runner,
                self._again,
                self._rerun_s,
                reruns=self._request.reruns,
                tell=self._tell,
            )
        done = len(self._reruns.sessions)
        try:
            self._reruns.run([each for each in self._failures if each.test not in seen])
        finally:
            self.sessions += self._reruns.sessions[done:]
            self._known = replace(
                self._known,
                alike=self._reruns.alike,
                out_of_time=frozenset(self._reruns.out_of_time),
            )

    @property
    def _rerun_s(self) -> float:
        """The time for reruns: what the user says, else by the time of the suite."""
        if self._request.rerun_s is not None:
            return self._request.rerun_s
        took_s = sum(session.duration_s for session in self._suite)
        return max(LEAST_TIME_S, OF_THE_SUITE * took_s)

    @property
    def _suite(self) -> list["PytestSession"]:
        return [each for each in self.sessions if each.kind.is_of_suite]

    def _run_what_is_left(self) -> None:
        """Run the tests behind a failure that decides nothing, since it is flaky or in quarantine."""
        while not self._runner.is_interrupted:
            judged = self._judged()
            plan = further_plan(self._plan, self._suite)
            if plan is None or self._is_red(judged) or run_problems(self._suite, is_red=True):
                return
            count = f"the {len(plan.tests)} tests" if plan.tests else "the tests"
            self._tell(f"running {count} that pytest left out: no failure before them decides")
            self.sessions += run_all(self._runner, plan, self._suite)
            self._look_again()

    def _is_red(self, judged: Sequence[TestJudgement]) -> bool:
        """Whether a test that decides has not passed, and is not flaky."""
        held = self._quarantine(judged).held
        return any(not is_green(each.verdict) and each.test not in held for each in judged)

    def _quarantine(self, judged: Sequence[TestJudgement]) -> Quarantine:
        # A test that did not come to run is one of the suite all the same.
        names = dict.fromkeys([*(each.test for each in judged), *self._known.not_run])
        first = self.sessions[0]
        return quarantine(
            self._entries,
            names,
            self._today,
            deselected=first.deselected,
            has_places=first.has_places,
        )

    @property
    def _has_too_many(self) -> bool:
        return len(self._failures) > MOST_RERUN

    def _compare(self, checkout: BaseCheckout) -> None:
        """Find the new tests and run them again; run at the base what failed."""
        self._base = checkout.base.commit
        if self._request.new_tests > 1:
            self._prove_new_tests(checkout)
        failed = [each for each in self._judged() if each.verdict is Verdict.FAILED]
        if not failed or self._has_too_many or self._runner.is_interrupted:
            return
        self._tell(f"running {len(failed)} failed tests at the base")
        plan = checkout.plan(self._again, self.sessions[0].path)
        sessions = run_at_base(self._runner, plan, failed, self._failures)
        for session in sessions:
            problem = base_problem(session)
            if problem is None:
                self.sessions.append(session)
            else:
                # What it shows is no evidence.
                self._base_problem = problem
                self.sessions.append(replace(session, attempts=()))

    def _prove_new_tests(self, checkout: BaseCheckout) -> None:
        self._tell("collecting the tests of the base")
        all_new = find_new_tests(self._runner, self._again, checkout, self.sessions[0])
        if isinstance(all_new, str):
            text = f"--new-tests: which tests are new is not known: {all_new}"
            self._problems.append(RunProblem(text=text))
            return
        times = self._request.new_tests
        self._known = replace(self._known, new=all_new, new_runs=times)
        failed = {failure.test for failure in self._failures}
        green = [name for name in all_new if name not in failed]
        if green:
            self.sessions += run_new_tests(
                self._runner, self._again, green, times=times - 1, tell=self._tell
            )

    def _judged(self) -> tuple[TestJudgement, ...]:
        return judge_tests(self.sessions, self._known)

    def _explain(self) -> None:
        """Name the kinds of flaky tests, if that was asked for."""
        budget_s = self._request.explain_s
        failures = {each.test: each for each in (*self._failures, *retried_failures(self._suite))}
        if budget_s is None or not failures or self._runner.is_interrupted:
            return
        # A run without it needs none of this.
        from ci_doctor.pytest_runs.explaining import explain_failures

        explained = explain_failures(
            self._again,
            self._runner,
            tuple(failures.values()),
            self.sessions,
            budget_s=budget_s,
            tell=self._tell,
        )
        self._known = replace(self._known, explained=explained)

    def result(self) -> PytestResult:
        """What the runs show."""
        if self._failures and not self._runner.is_interrupted:
            self._look_for_causes()
        judged = self._judged()
        suite = self._suite
        return PytestResult(
            python=self._plan.python,
            args=self._request.args,
            sessions=tuple(self.sessions),
            judged=judged,
            problems=(*run_problems(suite, is_red=self._is_red(judged)), *self._problems),
            quarantine=self._quarantine(judged),
            too_many=self._has_too_many,
            base=self._base,
            base_problem=self._base_problem,
            new=tuple(self._known.new),
            not_run=len(self._known.not_run),
            explained=dict(self._known.explained),
            rerun_s=None if self._reruns is None else self._rerun_s,
            out_of_time=tuple(self._known.out_of_time),
            interrupted=self._runner.interrupted_by,
        )

    def _look_for_causes(self) -> None:
        """Find the root causes in what failed."""
        failed: dict[str, list[TestAttempt]] = {each.test: [] for each in self._failures}
        for session in self.sessions:
            for attempt in session.attempts:
                if attempt.test in failed and not attempt.is_green:
                    failed[attempt.test].append(attempt)
        causes, outside = find_causes(failed, self._full, self._request.rules)
        self._known = replace(self._known, causes=causes, outside=outside)


# --- a suite from its first run to the outcome ---


LOGS: Final = "pytest"  # the folder in the report directory


def run(
    request: PytestRequest,
    *,
    directory: Path | None,
    redactor: "Redactor",
    interruption: Interruption,
    tell: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Run the suite, run again what failed, and judge.

    What pytest writes goes to the folder `pytest` of the report directory `directory`; without one,
    only the suite's output is shown, and reruns leave what the report quotes. `tell` gets a sentence
    before each further run. `interruption` must be handling signals. Raises UsageError if the
    interpreter, the quarantine or the base is wrong, InfraError if pytest cannot be supervised.
    """
    entries = read_quarantine(request.directory / QUARANTINE_FILE)
    in_process = request.is_rerun_in_process and request.reruns > 0
    args = request.args
    plan = PytestPlan(
        kind=RunKind.SUITE,
        python=find_interpreter(
            request.python, request.environ, request.directory, needs_rerunfailures=in_process
        ),
        args=with_options(args, f"--reruns={request.reruns}") if in_process else args,
        environ=request.environ,
        directory=request.directory,
        timeout_s=request.timeout_s,
        names_deselected=bool(entries),
    )
    base = None
    if request.baseline is not None:
        base = base_commit(request.directory, request.baseline)
    open_closed_streams()
    with own_directory("pytest") as folder:
        scratch = Path(folder)
        logs = scratch if directory is None else directory.absolute() / LOGS
        make_directory(logs)
        runner = PytestRunner(scratch, logs, interruption, on_stderr=request.on_stderr)
        # The machine's own day: a date in a file of the repository has no time zone.
        today = dt.date.today()  # noqa: DTZ011
        stages = TestStages(request, plan, runner, scratch, tell, entries=entries, today=today)
        try:
            stages.run(base)
            first = stages.sessions[0]
            if is_usage_error(first):
                return refused_outcome()
            question = question_of(request.args, first)
            if question is not None and not runner.is_interrupted:
                return answered_outcome(question, first)
            result = stages.result()
        finally:
            runner.close()
            if directory is not None:
                for warning in redact_files(sorted(logs.glob("*.log")), redactor):
                    tell(f"warning: {warning}")
    outcome = outcome_of(result, request.directory, directory)
    if result.interrupted is not None:
        return interrupted_outcome(outcome, result.interrupted)
    return outcome
