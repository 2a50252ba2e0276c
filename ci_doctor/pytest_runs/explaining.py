# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and files: explains the flaky tests of a suite, each by trials of its own."""

import contextlib
import json
import os
import shlex
import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.decodable import decodable
from ci_doctor.pytest_runs.attempt import PytestOutcome, PytestSession, RunKind
from ci_doctor.pytest_runs.explanation import CommandOf, Explanation, explained_by
from ci_doctor.pytest_runs.plan import FOLDER, PytestPlan, with_options
from ci_doctor.pytest_runs.process import PytestRunner
from ci_doctor.pytest_runs.reruns import SuiteFailure
from ci_doctor.pytest_runs.trial import (
    CRASHED,
    TIMED_OUT,
    BudgetSpent,
    Ending,
    FlakyTrial,
    Suspect,
    TrialResult,
    error_class,
    result_of,
)
from ci_doctor.pytest_runs.trial_plan import explain
from ci_doctor.system import clock

# --- the shell command that makes a trial again by hand ---

PLUGIN = "_ci_doctor_trial"

# Options of a whole suite: its workers, its reports, its files, when it stops. The value may be the next word.
_OF_SUITES = (
    "-n", "--numprocesses", "--dist", "--maxprocesses", "--maxfail", "--durations", "--junitxml",
    "--junit-xml", "--html", "--report-log", "--cov", "--cov-report", "--cov-config", "--cov-fail-under",
    "--basetemp", "--log-file",
)  # fmt: skip
_FLAGS_OF_SUITES = frozenset({
    "-x", "--exitfirst", "--lf", "--last-failed", "--ff", "--failed-first", "--nf", "--new-first",
    "--sw", "--stepwise", "--sw-skip", "--stepwise-skip",
})  # fmt: skip
# Options of pytest whose value is the next word. A file or a folder may have the name of the value.
_WITH_VALUE = frozenset({
    "-c", "-k", "-m", "-o", "-p", "-r", "-W", "--capture", "--config-file",
    "--confcutdir", "--deselect", "--ignore", "--ignore-glob", "--import-mode",
    "--override-ini", "--pythonwarnings", "--rootdir", "--tb",
})  # fmt: skip
_NO_WORKERS = "-n0"
# Options of plugins that shuffle. Their values may be the next word.
_SHUFFLING = ("--randomly-", "--random-order")
_WITH_SHUFFLING_VALUE = frozenset({
    "--randomly-seed", "--random-order-bucket", "--random-order-seed",
})  # fmt: skip
_SHUFFLERS = frozenset({"randomly", "pytest_randomly"})


def options_for_tests(arguments: Sequence[str], is_path: Callable[[str], bool]) -> tuple[str, ...]:
    """Those of the user's `arguments` that a run of chosen tests needs too.

    Left out are the paths, and what belongs to a whole suite. `is_path` tells whether a word is one.
    """
    kept: list[str] = []
    before = ""
    for word in arguments:
        option, before = before, word
        if option in _WITH_VALUE:
            kept.append(word)
            # The value is no option, even if it looks like one.
            before = ""
        elif not _is_of_suite(word, option) and not is_path(word):
            kept.append(word)
    return tuple(kept)


def _is_of_suite(word: str, option: str) -> bool:
    """Whether `word`, which follows `option`, belongs to a run of a whole suite alone."""
    if word == _NO_WORKERS:
        return False
    # The value may be missing, as in `--cov -q`.
    if option in _OF_SUITES and not word.startswith("-"):
        return True
    is_option = word.partition("=")[0] in _OF_SUITES or word.startswith("-n")
    return is_option or word == "--" or word in _FLAGS_OF_SUITES


def _unshuffled(arguments: Sequence[str]) -> tuple[str, ...]:
    """`arguments` without what shuffles the tests, or belongs to a plugin that is switched off."""
    kept: list[str] = []
    before = ""
    for word in arguments:
        option, before = before, word
        if option == "-p" and word in _SHUFFLERS:
            kept.pop()
        elif option in _WITH_SHUFFLING_VALUE or word.startswith(_SHUFFLING):
            continue
        elif not (word.startswith("-p") and word[2:] in _SHUFFLERS):
            kept.append(word)
    return tuple(kept)


def plugin_form(trial: FlakyTrial, **more: object) -> str:
    """The value of CI_DOCTOR_TRIAL: the conditions that the plugin makes, as JSON."""
    fields = msgspec.to_builtins(trial)
    fields["tests"] = [*trial.before, trial.target]
    for name in ("target", "before", "earlier", "hash_seed", "zone"):
        fields.pop(name, None)
    return msgspec.json.encode({**fields, **more}).decode()


def shell_command(
    trial: FlakyTrial,
    python: str,
    arguments: Sequence[str] = (),
    path_of: Callable[[str], str] = str,
) -> str:
    """One line for a shell where the suite was started; `arguments` are the user's own for pytest.

    path_of: turns a path in an id, which belongs to pytest's root directory, into one for that shell.
    """

    def here(test: str) -> str:
        file, separator, name = test.partition("::")
        return path_of(file) + separator + name

    assignments = []
    if trial.hash_seed is not None:
        assignments.append(f"PYTHONHASHSEED={trial.hash_seed}")
    if trial.zone is not None:
        assignments.append(f"TZ={shlex.quote(trial.zone)}")
    if not trial.needs_plugin:
        words = [python, "-m", "pytest", "-p", "no:randomly", *_unshuffled(arguments)]
        words += [here(each) for each in (*trial.before, trial.target)]
    else:
        assignments.append(f"PYTHONPATH={shlex.quote(str(FOLDER))}")
        assignments.append(f"CI_DOCTOR_TRIAL={shlex.quote(plugin_form(trial))}")
        files = [*trial.before, *trial.collect, trial.target]
        paths = dict.fromkeys(path_of(each.partition("::")[0]) for each in files)
        words = [python, "-m", "pytest", "-p", PLUGIN, *arguments, *paths]
    line = " ".join([*assignments, shlex.join(words)])
    for test in trial.earlier:
        earlier = replace(trial, target=test, before=(), earlier=())
        line = f"{shell_command(earlier, python, arguments, path_of)}; {line}"
    return line


# --- takes back what the tests of a trial made, changed and removed ---
# Only what did not exist before the trial is removed. The plugin kept a copy of what was changed.


class WrittenUndo(Struct, frozen=True, kw_only=True):
    """The file of the plugin: paths that the trial made, and the copies of those that it changed."""

    made: tuple[str, ...] = ()
    changed: dict[str, str] = {}


def undo(record: Path) -> None:
    """Take back what `record` lists. Without the file (the process was killed) nothing is undone.

    What cannot be removed or written is left as it is.
    """
    try:
        # Not by msgspec: a name that is not UTF-8 stands there with lone surrogates.
        written = msgspec.convert(json.loads(record.read_bytes()), decodable(WrittenUndo))
    except FileNotFoundError:
        return
    for name in written.made:
        path = Path(name)
        with contextlib.suppress(OSError):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
    for name, copy in written.changed.items():
        with contextlib.suppress(OSError):
            Path(name).write_bytes(Path(copy).read_bytes())


# --- makes trials, each in a fresh process, and undoes them ---
# A trial has a temporary directory of its own. It runs in the user's directory, with the user's
# options for pytest. What its tests write elsewhere is taken back after it (`undo`).

# Runs a command with an environment; the exit code, None if a time limit ended it.
Execute = Callable[[Sequence[str], Mapping[str, str]], int | None]


class TrialRunner(Struct, frozen=True, kw_only=True):
    """Makes trials of the tests of one suite, with `scratch`, a directory for it alone.

    arguments: the user's, for pytest. own: a directory around `scratch` in which no test writes.
    """

    python: str
    arguments: tuple[str, ...]
    environ: Mapping[str, str]
    scratch: Path
    execute: Execute
    own: Path | None = None

    def run(self, trial: FlakyTrial, error: str | None) -> TrialResult:
        """Make `trial`. A failure counts as the suspect's if it is by the exception class `error`."""
        folder = self.scratch / f"trial-{uuid.uuid4().hex}"
        folder.mkdir()
        temporary = folder / "tmp"
        temporary.mkdir()
        records: list[Path] = []
        exit_code = None
        try:
            earlier = [replace(trial, target=test, before=(), earlier=()) for test in trial.earlier]
            for index, each in enumerate([*earlier, trial]):
                records.append(folder / f"{index}" / "result.json")
                exit_code = self._once(each, records[-1], temporary)
            written = records[-1].read_bytes() if records[-1].exists() else None
        finally:
            for record in reversed(records):
                undo(record.with_name(record.name + ".undo"))
            shutil.rmtree(folder, ignore_errors=True)
        return result_of(trial, written, exit_code, error)

    def _once(self, trial: FlakyTrial, record: Path, temporary: Path) -> int | None:
        record.parent.mkdir()
        options = ("-o", f"cache_dir={record.parent / 'cache'}", "-p", PLUGIN)
        paths = [str(FOLDER), self.environ.get("PYTHONPATH", "")]
        environ = {
            **self.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "TMPDIR": str(temporary),
            # Where pytest looks before TMPDIR, and removes what earlier runs left.
            "PYTEST_DEBUG_TEMPROOT": str(temporary),
            # The user's own coverage stays as it is.
            "COVERAGE_FILE": str(record.parent / "coverage"),
            "CI_DOCTOR_TRIAL": plugin_form(
                trial, result=str(record), own=str(self.own or self.scratch)
            ),
            "CI_DOCTOR_TRIAL_ID": uuid.uuid4().hex,
        }
        if trial.hash_seed is not None:
            environ["PYTHONHASHSEED"] = str(trial.hash_seed)
        if trial.zone is not None:
            environ["TZ"] = trial.zone
        command = (self.python, "-m", "pytest", *with_options(self.arguments, *options))
        return self.execute(command, environ)


# --- makes the trials of a plan until it concludes, or until its time is over ---

# The rest of the time is for plain runs: if nothing is found, they tell how often it fails.
_SEARCH_SHARE: Final = 0.75


# Makes a trial; a failure by another exception class than the second argument is not the suspect's.
MakeTrial = Callable[[FlakyTrial, str | None], TrialResult]


def explained(
    suspect: Suspect,
    make: MakeTrial,
    budget_s: float,
    command_of: CommandOf = str,
    *,
    say: Callable[[int], None] = lambda _number: None,
    is_over: Callable[[], bool] = lambda: False,
) -> Explanation:
    """Explain `suspect` in about `budget_s` seconds: the trial that runs at the end is finished.

    command_of: gives the shell command of a trial. say: gets the number of each trial before it begins. No trial
    begins once `is_over` is true.
    """
    began = clock.now()
    plan = explain(suspect)
    deadlines = [began + _SEARCH_SHARE * budget_s, began + budget_s]
    ended: list[tuple[FlakyTrial, Ending]] = []
    trial = next(plan)
    while True:
        try:
            if deadlines and (is_over() or clock.now() >= deadlines[0]):
                del deadlines[0]
                trial = plan.throw(BudgetSpent())
                continue
            say(len(ended) + 1)
            result = make(trial, suspect.error)
            ended.append((trial, result.ending))
            trial = plan.send(result)
        except StopIteration as stop:
            return explained_by(stop.value, ended, clock.now() - began, command_of)


# --- explains the flaky tests of a suite, each by trials of its own ---

# Of one test in a trial, if the user gives no limit: a condition may make it hang.
_TEST_LIMIT_S: Final = 120.0


def suspects_of(
    failures: Sequence[SuiteFailure], sessions: Sequence[PytestSession]
) -> tuple[Suspect, ...]:
    """The failed tests of a suite as suspects, those first that are known to pass at times. Pure.

    One that failed in each attempt is a suspect only if it ran in another order than the files'.
    """
    flaky: list[Suspect] = []
    failing: list[Suspect] = []
    for failure in failures:
        # Be it after others that failed.
        has_ever_passed = any(
            attempt.is_green
            for session in sessions
            for attempt in session.attempts_of(failure.test)
        )
        reruns = [each for each in sessions if not each.kind.is_of_suite]
        before = failure.before
        if not has_ever_passed and reruns:
            # In the order of the files: a brittle test may need one of them.
            collected = sessions[0].collected or ()
            place = collected.index(failure.test) if failure.test in collected else 0
            before = collected[:place]
        seed = sessions[0].hash_seed
        suspect = Suspect(
            test=failure.test,
            before=before,
            error=_error(failure),
            hash_seed=int(seed) if seed is not None and seed.isdecimal() else None,
            seed=sessions[0].seed,
            always_failed=not has_ever_passed and bool(reruns),
        )
        if not suspect.always_failed:
            flaky.append(suspect)
        elif suspect.before and suspect.before != failure.before:
            failing.append(suspect)
    return (*flaky, *failing)


def _error(failure: SuiteFailure) -> str | None:
    if failure.attempt.outcome is PytestOutcome.TIMEOUT:
        return TIMED_OUT
    if failure.attempt.outcome in {PytestOutcome.CRASHED, PytestOutcome.LOST}:
        return CRASHED
    return error_class(failure.attempt.message)


def share_of(left_s: float, budget_s: float, suspects: int) -> float:
    """The seconds for the next of `suspects`, of which `left_s` of the budget are left. Pure.

    A quarter of the budget at least: shares that explain none of many tests are lost.
    """
    return max(left_s / suspects, min(left_s, budget_s / 4))


def explain_failures(
    plan: PytestPlan,
    runner: PytestRunner,
    failures: Sequence[SuiteFailure],
    sessions: Sequence[PytestSession],
    *,
    budget_s: float,
    tell: Callable[[str], None],
) -> dict[str, Explanation]:
    """Why the failed tests of a suite are flaky, within about `budget_s` seconds.

    plan: for runs of chosen tests in one process. What one test leaves of its time, the others share.
    """
    trials = TrialRunner(
        python=str(plan.python),
        arguments=plan.args,
        environ=plan.environ,
        scratch=runner.scratch / "trials",
        own=runner.scratch,
        execute=lambda command, environ: _execute(plan, runner, command, environ),
    )
    trials.scratch.mkdir()
    suspects = suspects_of(failures, sessions)
    if not suspects:
        tell("no failed test is known to pass at times: there is no flaky one to explain")
    end = clock.now() + budget_s
    found: dict[str, Explanation] = {}
    for index, suspect in enumerate(suspects):
        if runner.is_interrupted:
            break
        test = suspect.test
        share_s = share_of(max(0.0, end - clock.now()), budget_s, len(suspects) - index)
        tell(f"explaining {test}, for at most {share_s:.0f} s")
        found[test] = explained(
            suspect,
            trials.run,
            share_s,
            lambda trial: trial_command(trial, plan, sessions[0].root, plan.directory),
            say=partial(_say, tell, test),
            is_over=lambda: runner.is_interrupted,
        )
    return found


def _say(tell: Callable[[str], None], test: str, number: int) -> None:
    if number % 10 == 0:
        tell(f"explaining {test}: run {number}")


def _execute(
    plan: PytestPlan,
    runner: PytestRunner,
    command: Sequence[str],
    environ: Mapping[str, str],
) -> int | None:
    """Make a trial below the guardian, so that nothing of it is left."""
    # The command line of a plan begins with the interpreter, `-m pytest` and the recorder.
    trial = replace(
        plan,
        kind=RunKind.TRIAL,
        args=tuple(command[3:]),
        environ=environ,
        tests=(),
        hash_seed=None,
        timeout_s=plan.timeout_s or _TEST_LIMIT_S,
    )
    session = runner.run(trial, logs=runner.scratch / "trials")
    if any(each.outcome is PytestOutcome.TIMEOUT for each in session.attempts):
        return None
    return session.exit_code if session.exit_code is not None else -1


def trial_command(trial: FlakyTrial, plan: PytestPlan, root: str | None, directory: Path) -> str:
    """The shell command of a trial, for a shell in `directory`. Reads which words are paths."""

    def is_path(word: str) -> bool:
        return not word.startswith("-") and (directory / word.partition("::")[0]).exists()

    # The suite ran here: its relative options and the files of its tests belong to this directory.
    def path_of(file: str) -> str:
        return os.path.relpath(Path(root or directory, file), directory)

    options = options_for_tests(plan.args, is_path)
    return shell_command(trial, str(plan.python), options, path_of)
