# SPDX-License-Identifier: Apache-2.0
"""What the runs of pytest lack as evidence, whatever their tests say. Pure."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from ci_doctor.pytest_runs.attempt import PytestSession, missing_tests
from ci_doctor.pytest_runs.time_limit import StuckCollection
from ci_doctor.system.secrets.cutting import first_words

_INTERRUPTED = 2
_USAGE = 4
_NOTHING_COLLECTED = 5
_STACK = 1500  # characters; the innermost call is the first
_NAMED = 5  # tests without a result that a sentence names
# Options by which pytest answers a question and runs no test.
_QUESTIONS = frozenset(
    {
        "--co",
        "--collect-only",
        "--collectonly",
        "--fixtures",
        "--fixtures-per-test",
        "--funcargs",
        "--help",
        "-h",
        "--markers",
        "--setup-only",
        "--setup-plan",
        "--setuponly",
        "--setupplan",
        "--version",
        "-V",
    }
)


class RunProblem(Struct, frozen=True, kw_only=True):
    """A reason why the suite cannot be green. is_failure: it is a failure; else evidence is missing."""

    text: str
    detail: str = ""
    is_failure: bool = False


def is_usage_error(session: PytestSession) -> bool:
    """Whether pytest refused its command line, before any test."""
    return session.exit_code == _USAGE and not session.attempts


def question_of(args: Sequence[str], session: PytestSession) -> str | None:
    """The option in `args` for which pytest ran no test; None if it was to run tests, or ran one."""
    called = any(when == "call" for each in session.attempts for when, _, _ in each.phases)
    if called:
        return None
    for word in args:
        if word == "--":
            break
        if word in _QUESTIONS:
            return word
    return None


def run_problems(suite: Sequence[PytestSession]) -> tuple[RunProblem, ...]:
    """What is wrong with the suite as a whole: its processes after each other."""
    return tuple(_problems(suite))


def _problems(suite: Sequence[PytestSession]) -> Iterator[RunProblem]:
    first = suite[0]
    for session in suite:
        yield from _of_session(session)
    if not first.collected:
        if first.stuck is None:
            yield RunProblem(text=_why_nothing(first), detail=first.last_lines)
        return
    if missing_tests(suite) and not not_run_tests(suite):
        yield _missing(suite)
    yield from _unexplained_end(suite)


def _of_session(session: PytestSession) -> Iterator[RunProblem]:
    for name, text in session.collect_errors.items():
        yield RunProblem(text=f"{name or 'the suite'} cannot be collected", detail=text)
    for text in session.internal_errors:
        yield RunProblem(text="pytest itself failed (internal error)", detail=text)
    if session.stuck is not None:
        yield _of_stuck(session.stuck)
    if session.damaged:
        yield RunProblem(text=f"{session.damaged} lines of the record are damaged")
    if session.other_failures:
        yield RunProblem(
            text="a plugin counts a failure that is no test's, such as a coverage too small",
            is_failure=True,
        )


def _of_stuck(stuck: StuckCollection) -> RunProblem:
    return RunProblem(
        text=f"{stuck.name} was being collected for longer than {stuck.limit_s:g} s; "
        "ci-doctor ended pytest",
        detail=first_words(stuck.stack, _STACK),
    )


def _why_nothing(first: PytestSession) -> str:
    if first.exit_code == _NOTHING_COLLECTED:
        return "pytest collected no test"
    return f"pytest ended before it had collected the tests: {first.how_it_ended}"


def not_run_tests(suite: Sequence[PytestSession]) -> tuple[str, ...]:
    """The tests that have no result because `-x` or `--maxfail` stopped pytest after a failure."""
    if not _stopped_by_a_failure(suite):
        return ()
    return missing_tests(suite)


def _stopped_by_a_failure(suite: Sequence[PytestSession]) -> bool:
    failed = any(not attempt.is_green for session in suite for attempt in session.attempts)
    has_stopped = any(session.stopped for session in suite) or bool(suite[0].maxfail)
    return failed and has_stopped


def _missing(suite: Sequence[PytestSession]) -> RunProblem:
    missing = missing_tests(suite)
    names = list(missing[:_NAMED])
    if len(missing) > _NAMED:
        names.append(f"and {len(missing) - _NAMED} more")
    of_all = len(suite[0].collected or ())
    text = f"{len(missing)} of {of_all} collected tests have no result{_why_missing(suite[-1])}"
    return RunProblem(text=text, detail="\n".join(names))


def _why_missing(last: PytestSession) -> str:
    if last.interrupted is not None:
        return f"; {last.interrupted} interrupted the run"
    if last.stopped:
        return f"; pytest stopped: {last.stopped}"
    if last.collect_errors:
        return "; pytest runs none if it cannot collect all"
    if last.exit_code == _INTERRUPTED:
        return "; pytest was interrupted"
    return ""


def _unexplained_end(suite: Sequence[PytestSession]) -> Iterator[RunProblem]:
    """An end of the last process that its tests do not explain."""
    last = suite[-1]
    if last.stuck is not None:
        return
    if last.finished is None:
        crashed = any(
            attempt.index is not None and not attempt.is_green for attempt in last.attempts
        )
        if not crashed:
            yield RunProblem(
                text=f"pytest ended without a result: {last.how_it_ended}",
                detail=last.last_lines,
                is_failure=True,
            )
        return
    if last.finished != last.exit_code:
        yield RunProblem(
            text=f"pytest announced exit code {last.finished}, and its process ended with "
            f"{last.how_it_ended}",
            detail=last.last_lines,
            is_failure=True,
        )
        return
    failed = any(not attempt.is_green for attempt in last.attempts)
    is_told = bool(last.collect_errors or last.internal_errors or last.other_failures)
    if last.exit_code and not failed and not is_told:
        yield RunProblem(
            text=f"pytest ended with exit code {last.exit_code}, although no test failed",
            detail=last.last_lines,
            is_failure=True,
        )
