# SPDX-License-Identifier: Apache-2.0
"""Acts on threads: runs checks side by side, each with a deadline; makes the changes of `--fix`."""

import os
import queue
import threading
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.checks.all_checks import missing_need
from ci_doctor.checks.check import (
    CheckResult,
    DoctorCheck,
    FinishedCheck,
    Fix,
    UndeterminedError,
    problem,
    unknown_result,
)
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.outcome import DoctorRun
from ci_doctor.errors import CiDoctorError
from ci_doctor.model.outcome import Evidence, Rule, Severity
from ci_doctor.system import clock
from ci_doctor.system.processes.cpu_wait import CpuWaits, extended

# How often whoever watches hears what is waited for.
_WAIT_S: Final = 1.0
# More names than these do not fit in a line.
_NAMED: Final = 3
CHECK_CRASHED: Final = Rule(
    id="doctor/check-crashed",
    severity=Severity.WARNING,
    meaning="A check of ci-doctor ended by an error of its own, so what it looks at is unknown.",
    remedy="This says nothing about the machine. Please report it with the text of the error.",
)


class DoctorRequest(Struct, frozen=True, kw_only=True):
    """The `checks` to run, the `areas` that were asked for by name, and whether an unknown that is needed ends `void` (`strict`)."""

    checks: tuple[DoctorCheck, ...]
    areas: tuple[str, ...] = ()
    strict: bool = False


def run(
    request: DoctorRequest, context: CheckContext, tell: Callable[[str], None] = lambda _: None
) -> DoctorRun:
    """Run the checks, and call `tell` with what is waited for.

    The results stand in the order of the request. Raises nothing of a check's own.
    """
    not_run = {}
    runnable = []
    unmeasured = []
    for check in request.checks:
        reason = missing_need(check, context)
        if reason is None:
            runnable.append(check)
        # It was asked for: what cannot be had is unknown, and not out of place.
        elif check.is_measurement:
            unmeasured.append(
                FinishedCheck(check=check, result=unknown_result(reason), duration_s=None)
            )
        else:
            not_run[check] = reason

    def tell_pending(pending: Sequence[DoctorCheck]) -> None:
        """Such as `51 of 53 checks have ended; waiting for gpu/driver, imports/services`."""
        shown = ", ".join(check.id for check in pending[:_NAMED])
        more = f" and {len(pending) - _NAMED} more" if len(pending) > _NAMED else ""
        ended = f"{len(runnable) - len(pending)} of {len(runnable)} checks have ended"
        tell(f"{ended}; waiting for {shown}{more}")

    # Closed even if `tell` raises: programs must not outlive us.
    with closing(run_checks(runnable, context, tell_pending)) as ending:
        finished = [*ending, *unmeasured]
    places = {check.id: place for place, check in enumerate(request.checks)}
    return DoctorRun(
        finished=tuple(sorted(finished, key=lambda each: places[each.check.id])),
        not_run=not_run,
        areas=request.areas,
        workload=context.workload,
        strict=request.strict,
    )


def planned(ran: DoctorRun) -> DoctorRun:
    """`ran` with the changes that `fix` would make, in words. Nothing is changed."""
    return replace(ran, would_fix=tuple(fix.words for each in ran.finished for fix in _fixes(each)))


def fix(ran: DoctorRun, context: CheckContext, show: Callable[[str], None]) -> DoctorRun:
    """Make the changes of all problems, and run their checks again.

    `show` gets the words of each change before it is made. If a change of a check fails, its earlier
    result stands: a verdict never becomes better by a failed change.
    """
    fixed: list[str] = []
    not_fixed: dict[str, str] = {}
    again: list[DoctorCheck] = []
    for each in ran.finished:
        fixes = _fixes(each)
        for one in fixes:
            show(one.words)
            try:
                one.apply()
            except CiDoctorError as error:
                not_fixed[one.words] = error.message
            except OSError as error:
                not_fixed[one.words] = error.strerror or str(error)
            else:
                fixed.append(one.words)
        if fixes and not any(one.words in not_fixed for one in fixes):
            again.append(each.check)
    second: dict[str, FinishedCheck] = {}
    if again:  # in a context in which nothing has been read yet
        with closing(run_checks(again, context.renewed())) as ending:
            second = {each.check.id: each for each in ending}
    return replace(
        ran,
        finished=tuple(second.get(each.check.id, each) for each in ran.finished),
        fixed=tuple(fixed),
        not_fixed=not_fixed,
    )


def _fixes(finished: FinishedCheck) -> list[Fix]:
    return [each.fix for each in finished.result.problems if each.fix is not None]


class _Runner:
    """One check in a thread of its own: one that hangs in the kernel cannot hold up the others."""

    def __init__(
        self, check: DoctorCheck, context: CheckContext, ended: "queue.SimpleQueue[_Runner]"
    ) -> None:
        self.check = check
        self.began = clock.now()
        self.result: CheckResult | None = None
        self.duration_s: float | None = None
        self._context = context
        self._ended = ended
        # A daemon: the process does not wait for it at its end.
        self._thread = threading.Thread(target=self._run, daemon=True, name=check.id)

    def start(self) -> None:
        """Start the thread; without one, the result is unknown."""
        try:
            self._thread.start()
        except RuntimeError as error:  # the limit of threads
            self.result = unknown_result(f"no thread could be started: {error}")
            self._ended.put(self)

    def late(self) -> FinishedCheck:
        """The result of a check that has missed its deadline."""
        reason = f"no answer within {self.check.limit_s:g} s"
        program = self._context.program_awaited_by(self._thread.ident or 0)
        if program is not None:
            reason += f": `{program}` was still running"
        return FinishedCheck(check=self.check, result=unknown_result(reason), duration_s=None)

    def finished(self) -> FinishedCheck:
        """The result of a check that has ended."""
        result = self.result or unknown_result("it has not ended")
        return FinishedCheck(check=self.check, result=result, duration_s=self.duration_s)

    def _run(self) -> None:
        self.result = _result(self.check, self._context)
        self.duration_s = clock.now() - self.began
        self._ended.put(self)


def run_checks(
    checks: Sequence[DoctorCheck],
    context: CheckContext,
    on_wait: Callable[[Sequence[DoctorCheck]], None] = lambda _: None,
) -> Generator[FinishedCheck]:
    """Run `checks` at once, and give each as it ends or misses its deadline.

    `on_wait` gets the checks that still run, after each second in which none has ended.
    Seconds in which ci-doctor or one of its programs waited for a CPU extend a deadline. At the
    end, and if the caller stops early, the programs that still run are killed.
    """
    ended: queue.SimpleQueue[_Runner] = queue.SimpleQueue()
    waits = CpuWaits(lambda: (os.getpid(), *context.programs.pids()))
    before = waits.now()
    pending = [_Runner(check, context, ended) for check in checks]
    try:
        for runner in pending:
            runner.start()
        while pending:
            waited_s = waits.since(before)
            late = [runner for runner in pending if _left_s(runner, waited_s) <= 0]
            for runner in late:
                pending.remove(runner)
                yield runner.late()
            if not pending:
                break
            next_s = min(_left_s(runner, waited_s) for runner in pending)
            try:
                runner = ended.get(timeout=min(next_s, _WAIT_S))
            except queue.Empty:
                on_wait([runner.check for runner in pending])
                continue
            if runner in pending:
                pending.remove(runner)
                yield runner.finished()
    finally:
        context.programs.stop()


def _left_s(runner: _Runner, waited_s: float) -> float:
    elapsed_s = clock.now() - runner.began
    return extended(runner.check.limit_s, waited_s) - elapsed_s


def _result(check: DoctorCheck, context: CheckContext) -> CheckResult:
    """What `check` says; an error of its own makes it unknown."""
    try:
        return check.run(context)
    except UndeterminedError as error:
        return unknown_result(str(error))
    except CiDoctorError as error:
        return unknown_result(error.message)
    except OSError as error:
        reason = error.strerror or str(error)
        place = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        return unknown_result(place + reason)
    # `ulimit -v`, or a full machine: no bug of the check.
    except MemoryError:
        return unknown_result("no memory is left for this check")
    # One broken check must not take the others away.
    except Exception as error:  # noqa: BLE001
        summary = f"the check {check.id} ended by {type(error).__name__}: {error}"
        crash = problem(
            CHECK_CRASHED,
            summary,
            evidence=(Evidence(excerpt="".join(traceback.format_exception(error))),),
        )
        return CheckResult(summary=summary, problems=(crash,), unknown="a bug in ci-doctor")
