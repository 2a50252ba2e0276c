# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: plays the race of a rule in a target, with a stub as the trigger."""

import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.errors import InfraError
from ci_doctor.machine.interpreters import ask, clean_environment
from ci_doctor.preload.interpreter import Target, read_answer
from ci_doctor.preload.preload_rule import PreloadRule, format_rule
from ci_doctor.system.files.own_directory import own_directory
from ci_doctor.system.processes.limited_runs import SeparateRun

_DRIVER = Path(__file__).parent / "stub" / "race_driver.py"
# As long as the trial of a preload before its installation.
RUN_TIMEOUT_S = 180.0


class RaceRun(Struct, frozen=True, kw_only=True):
    """How one run ended.

    `error` is one line, empty if all went well. `executed`: the trigger's code was reached.
    `loaded_before`: the module, or the trigger, existed before. `replaced`: the module put another
    object in its place in sys.modules. `trace` is what the shim wrote.
    """

    executed: bool = False
    error: str = ""
    traceback: str = ""
    loaded_before: bool = False
    replaced: bool = False
    trace: str = ""


class Played(Struct, frozen=True, kw_only=True):
    """The runs of one race: the background imports `first`, the trigger needs `second`."""

    first: str
    second: str
    control: tuple[RaceRun, ...]
    with_shim: tuple[RaceRun, ...]

    @property
    def lost(self) -> int:
        """How many runs without the shim failed."""
        return len([run for run in self.control if run.error])


def play(
    target: Target,
    rule: PreloadRule,
    index: int,
    *,
    runs: int,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Played]:
    """The races of the module number `index`, up to the first one that is lost without the shim.

    It is played against itself, then against each other module of the rule, in both orders: so an
    import cycle is lost. As many runs without the shim as with it, in turn: a busy machine slows
    both alike. `tell` is called before each run.
    """
    modules = [preload.module for preload in rule.preloads]
    played: list[Played] = []
    others = [other for other in range(len(modules)) if other != index]
    pairs = [pair for other in others for pair in ((index, other), (other, index))]
    for first, second in [(index, index), *pairs]:
        opponents = " against ".join(dict.fromkeys((modules[first], modules[second])))
        by_shim: dict[bool, list[RaceRun]] = {False: [], True: []}
        for number in range(1, 2 * runs + 1):
            tell(f"{opponents}: run {number} of {2 * runs}")
            shim = number % 2 == 0
            words = ("race", format_rule(rule), str(first), str(second))
            by_shim[shim].append(drive(target.python, *words, shim=shim))
        one = Played(
            first=modules[first],
            second=modules[second],
            control=tuple(by_shim[False]),
            with_shim=tuple(by_shim[True]),
        )
        played.append(one)
        if one.lost:
            break
    return played


def drive(python: Path, *words: str, shim: bool, timeout_s: float = RUN_TIMEOUT_S) -> RaceRun:
    """Run the driver in `python`. A run that does not end, or prints no result, is an error."""
    with own_directory("verify") as directory:
        trace = Path(directory) / "trace"
        # The job's modules may come from PYTHONPATH.
        environment = clean_environment(os.environ, keep=("PYTHONPATH",))
        environment["CI_DOCTOR_PRELOAD_TRACE"] = str(trace)
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        if not shim:
            environment["CI_DOCTOR_PRELOAD"] = "0"
        answer = ask(python, str(_DRIVER), *words, timeout_s=timeout_s, environment=environment)
        lines = trace.read_text("utf-8", "replace") if trace.exists() else ""
    return read_run(answer, lines, timeout_s)


def read_run(answer: SeparateRun, trace: str, timeout_s: float) -> RaceRun:
    """The run that `answer` reports; `trace` is what the shim wrote."""
    run = read_answer(answer, RaceRun) if answer.exit_code is not None else None
    if run is not None:
        return replace(run, trace=trace)
    error = f"did not end within {timeout_s:.0f} s"
    if answer.exit_code is not None:
        error = f"ended with exit code {answer.exit_code}: {answer.last_words}"
    return RaceRun(executed=True, error=error, traceback=answer.stderr, trace=trace)


def self_replacement_race(python: Path, *, timeout_s: float = 60.0) -> bool:
    """Whether `python` is exposed: a waiting import gets the object that is no longer the module.

    gh-143650 is the repair, and version numbers do not show which builds have it. Takes 0.1 s.
    Raises UsageError if `python` cannot be run, InfraError if it does not answer.
    """
    # A package of ours that replaces itself in sys.modules.
    rule = "_ci_doctor_trigger=_ci_doctor_self_replacing:value"
    run = drive(python, "immunity", rule, "0", "0", shim=False, timeout_s=timeout_s)
    lost = "cannot import name 'value'" in run.error
    if not run.executed or not run.replaced or (run.error and not lost):
        reason = run.error or "the stub was not executed"
        raise InfraError(
            f"{python} could not be probed for the race: {reason}", hint=f"run `{python} -c pass`"
        )
    return lost
