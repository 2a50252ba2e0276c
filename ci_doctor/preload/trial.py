# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: a deterministic import race with a rule and without it."""

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.errors import InfraError, PreparationError, UsageError
from ci_doctor.machine.interpreters import ask, clean_environment
from ci_doctor.model.outcome import Evidence, Finding, Rule, Severity
from ci_doctor.preload.interpreter import PROBE_TIMEOUT_S, Target, read_answer
from ci_doctor.preload.preload_rule import Preload, PreloadRule, format_rule, merge
from ci_doctor.preload.start_files import FINDER, PATH_FILE, RUNTIME
from ci_doctor.system.files.access import own_directory
from ci_doctor.system.processes.limited_runs import SeparateRun
from ci_doctor.system.processes.process import describe_exit

# Acts on processes: plays the race of a rule in a target, with a stub as the trigger.

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


# Acts on processes: starts a target to learn what a rule and the armed shim would do to it.
#
# Whether the shim can see the import of a trigger, what importing the modules of a rule does, and
# whether an interpreter starts with the shim armed once and idle.

NOT_INSTALLED: Final = Rule(
    id="preload/not-installed",
    severity=Severity.NOTE,
    meaning="The module to preload is not installed in the target yet.",
    remedy="Nothing: the shim does nothing until the module is installed.",
)
FAILS_NOW: Final = Rule(
    id="preload/fails-now",
    severity=Severity.WARNING,
    meaning="The module to preload raises an exception when the target imports it now.",
    remedy=(
        "Repair that import. The shim itself never ends an interpreter, "
        "and the program's own import shows the error again."
    ),
)
CRASHES: Final = Rule(
    id="preload/crashes",
    severity=Severity.ERROR,
    meaning=(
        "Importing the module to preload ends the interpreter by a signal, which no shim can catch."
    ),
    remedy="Repair the installation of that module first; nothing was installed.",
)
HANGS: Final = Rule(
    id="preload/hangs",
    severity=Severity.ERROR,
    meaning="Importing the module to preload does not end in time.",
    remedy="Repair that import first; nothing was installed.",
)
BREAKS_START: Final = Rule(
    id="preload/breaks-start",
    severity=Severity.ERROR,
    meaning="The interpreter does not start cleanly with the shim, which was removed again.",
    remedy="Read what the interpreter printed: another .pth file may conflict with the shim.",
)
RULES: Final = (NOT_INSTALLED, FAILS_NOW, CRASHES, HANGS, BREAKS_START)

# Cold imports of torch from a network file system take tens of seconds.
TRIAL_TIMEOUT_S = 180.0
EXCERPT_LINES = 40

# Prints {"is_installed": bool, "error": str | null} as the last line of stdout; what the module prints
# goes to stderr. os._exit: threads that the module started must not delay the answer.
_TRIAL = """
import json, os, sys, traceback
from importlib.util import find_spec
preloads = []
for text in sys.argv[1:]:
    module, _, names = text.partition(":")
    preloads.append((module, names.split(",") if names else []))
del sys.argv[1:]
sys.path[:] = [entry for entry in sys.path if entry]
stdout = os.dup(1)
os.dup2(2, 1)
is_installed, error = all(find_spec(module.partition(".")[0]) for module, _ in preloads), None
for module, attributes in preloads if is_installed else ():
    try:
        __import__(module)
        for attribute in attributes:
            getattr(sys.modules[module], attribute)
    except BaseException as caught:
        try:
            traceback.print_exc()
        except Exception:  # the module has closed stderr
            pass
        try:
            text = "%s: %s" % (type(caught).__name__, " ".join(str(caught).split()))
        except Exception:
            text = type(caught).__name__
        error = error or text.encode("utf-8", "replace").decode()
try:
    sys.stderr.flush()
except Exception:
    pass
os.write(stdout, b"\\n" + json.dumps({"is_installed": is_installed, "error": error}).encode() + b"\\n")
os._exit(0)
"""
# `site` runs here, and not before: what is loaded when it comes to our `.pth` file is out of reach.
# In old syntax. The last line of stdout is the answer.
_REACH: Final = """
import sys
site_dir, path_file = sys.argv[1], sys.argv[2]
triggers = sys.argv[3:]
import os, site
loaded = []
addsitedir, addpackage = site.addsitedir, site.addpackage
def here(directory):
    return os.path.realpath(directory) == os.path.realpath(site_dir)
def note():
    if not loaded:
        loaded.append(set(sys.modules))
def package(directory, name, known_paths, *rest, **more):
    if here(directory) and name >= path_file:
        note()
    return addpackage(directory, name, known_paths, *rest, **more)
def whole(directory, *rest, **more):
    try:
        return addsitedir(directory, *rest, **more)
    finally:
        if here(directory):
            note()
site.addpackage, site.addsitedir = package, whole
site.main()
note()
import _imp, importlib.machinery, json
def kind(name):
    if name in loaded[0]:
        return "loaded"
    if name in sys.builtin_module_names:
        return "built in"
    if _imp.is_frozen(name):
        return "frozen"
    path, full = None, ""
    for part in name.split("."):
        full = full + "." + part if full else part
        try:
            spec = importlib.machinery.PathFinder.find_spec(full, path)
        except KeyError:  # a namespace in a package that is not loaded
            path = [os.path.join(entry, part) for entry in path]
            origin = None
            continue
        except Exception:
            return ""
        if spec is None:
            return ""
        # That of a namespace asks for its parent in sys.modules.
        path = getattr(spec.submodule_search_locations, "_path", spec.submodule_search_locations)
        origin = spec.origin
    return "namespace" if origin in (None, "namespace") else ""
pytest = importlib.machinery.PathFinder.find_spec("pytest") is not None
answer = {"kinds": dict((name, kind(name)) for name in triggers), "has_pytest": pytest}
print()
print(json.dumps(answer))
"""
# The files that pytest takes for test modules, by default (`python_files`), and its own.
_REWRITTEN: Final = re.compile(r"(^|\.)(conftest|test_\w*|\w*_test)$")
_REASONS: Final = {
    "loaded": "each start of this interpreter loads it before the shim",
    "built in": "it is built into the interpreter, and a shim sees no import of it",
    "frozen": "it is frozen into the interpreter, and a shim sees no import of it",
    "namespace": "it is a namespace package, which has no code and no loader",
}
# Prints the fields of ObservedStart. json is imported last, and not through the shim: it could be a
# trigger.
_START: Final = f"""
import sys
ours = sys.modules.get({Path(FINDER).stem!r})
start = {{
    "armed": sum(each is ours for each in sys.meta_path),
    "runtime": {Path(RUNTIME).stem!r} in sys.modules,
    "rules": getattr(ours, "RULES", None),
}}
sys.meta_path = [each for each in sys.meta_path if each is not ours]
import json
print()
print(json.dumps(start))
"""


class _Reach(Struct, frozen=True, kw_only=True):
    kinds: dict[str, str]
    has_pytest: bool


def refuse_unreachable(target: Target, rules: Sequence[PreloadRule]) -> None:
    """Raises UsageError for the first rule that can never fire, with the reason.

    Raises InfraError if the interpreter does not answer.
    """
    triggers = [rule.trigger for rule in rules]
    words = ("-I", "-S", "-B", "-c", _REACH, str(target.site_dir), PATH_FILE, *triggers)
    answer = ask(
        target.python, *words, timeout_s=PROBE_TIMEOUT_S, environment=clean_environment(os.environ)
    )
    reach = read_answer(answer, _Reach)
    if reach is None:
        raise InfraError(
            f"{target.python} does not tell what it loads at its start: {answer.last_words}",
            hint=f"run `{target.python} -I -c pass`",
        )
    for rule in rules:
        reason = _REASONS.get(reach.kinds[rule.trigger])
        hint = "take the module that starts the thread as trigger: `ci-doctor import-race` names it"
        if reason is None and reach.has_pytest and _REWRITTEN.search(rule.trigger):
            reason = "pytest loads it by a finder of its own, which stands in front of the shim"
            hint = "write the import at the top of conftest.py, or run pytest with --assert=plain"
        if reason is not None:
            raise UsageError(
                f"preload rule {format_rule(rule)!r} cannot fire with {target.python}: "
                f"{rule.trigger}: {reason}",
                hint=hint,
            )


class _TrialResult(Struct, frozen=True, kw_only=True):
    is_installed: bool
    error: str | None


def try_preloads(target: Target, rules: Sequence[PreloadRule]) -> tuple[Finding, ...]:
    """What importing the modules of `rules` does to the target, each in a fresh child.

    An error if a preload would end or hang every process that imports the trigger; a warning if it
    raises, which the shim survives; a note if the package is not installed yet. Nothing if all is
    well.
    """
    armed = merge((), rules)
    alone = {preload.module: (preload,) for rule in armed for preload in rule.preloads}
    findings = [_try(target, preloads) for preloads in alone.values()]
    if not any(finding and finding.severity is Severity.ERROR for finding in findings):
        # What a process survives alone, it may not survive together: one process gets all of a
        # rule.
        for rule in armed:
            finding = _try(target, rule.preloads) if len(rule.preloads) > 1 else None
            # A warning or note was made above already, for the module itself.
            if finding is not None and finding.severity is Severity.ERROR:
                findings.append(finding)
    return tuple(finding for finding in findings if finding is not None)


def _try(target: Target, preloads: Sequence[Preload]) -> Finding | None:
    # PYTHONPATH stays: the job's modules may come from there.
    environment = clean_environment(os.environ, keep=("PYTHONPATH",)) | {
        "CI_DOCTOR_PRELOAD": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONFAULTHANDLER": "1",
    }
    specs = [f"{preload.module}:{','.join(preload.attributes)}" for preload in preloads]
    answer = ask(
        target.python, "-c", _TRIAL, *specs, timeout_s=TRIAL_TIMEOUT_S, environment=environment
    )
    return judge_trial(target, preloads, answer, TRIAL_TIMEOUT_S)


def judge_trial(
    target: Target, preloads: Sequence[Preload], answer: SeparateRun, timeout_s: float
) -> Finding | None:
    """The finding about the trial of `preloads` in one process; None if it went well."""
    module = ", ".join(preload.module for preload in preloads)
    python = target.python
    remedy = f"see it with `{python} -X faulthandler -c 'import {module}'`"
    result = read_answer(answer, _TrialResult)
    if answer.exit_code is not None and result is not None:
        if not result.is_installed:
            return NOT_INSTALLED.finding(
                f"{module} is not installed for {python} yet; the shim works as soon as it is"
            )
        if not result.error:
            return None
        rule = FAILS_NOW
        summary = f"importing {module} with {python} fails now: {result.error}"
    else:
        remedy = f"{remedy}; then leave {module} out of the preload rules"
        rule = HANGS
        summary = (
            f"importing {module} with {python} took longer than {timeout_s:.0f} s and was stopped"
        )
        if answer.exit_code is not None:
            rule = CRASHES
            summary = f"importing {module} ends {python}: {describe_exit(answer.exit_code)}"
            summary += " without a Python exception" if answer.exit_code >= 0 else ""
    excerpt = "\n".join(answer.stderr.strip().splitlines()[-EXCERPT_LINES:])
    return rule.finding(
        summary, evidence=(Evidence(excerpt=excerpt),) if excerpt else (), remedy=remedy
    )


class ObservedStart(Struct, frozen=True, kw_only=True):
    """A start: the number of our armed finders, whether the runtime is loaded, and their rules.

    `trace` is what the shim wrote, `stderr` what anybody wrote there.
    """

    armed: int
    runtime: bool
    rules: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] | None
    trace: str = ""
    stderr: str = ""


def observe_start(target: Target, *options: str) -> ObservedStart:
    """Start `target` with `options`. Raises InfraError if it does not answer."""
    with own_directory("preload") as directory:
        trace = Path(directory) / "trace"
        environment = clean_environment(os.environ) | {"CI_DOCTOR_PRELOAD_TRACE": str(trace)}
        # -B: what is imported at the start must not leave bytecode behind.
        words = (*options, "-B", "-c", _START)
        answer = ask(target.python, *words, timeout_s=PROBE_TIMEOUT_S, environment=environment)
        lines = trace.read_text("utf-8", "replace") if trace.exists() else ""
    start = read_answer(answer, ObservedStart)
    if start is None:
        raise InfraError(
            f"{target.python} does not start: {answer.last_words}",
            hint=f"run `{target.python} -c pass`",
        )
    return replace(start, trace=lines, stderr=answer.stderr)


def prove_start(target: Target, clean: ObservedStart) -> None:
    """Compare a start with the shim with `clean`, a start from before the installation.

    Nothing new may be on stderr, and the shim must be armed exactly once. Raises PreparationError,
    with the finding.
    """
    try:
        start = observe_start(target, "-I")
    except InfraError as error:
        excerpt = error.message
    else:
        # An interpreter that complains of other things at every start may go on doing so.
        quiet = PATH_FILE not in start.stderr if clean.stderr else not start.stderr
        if start.armed == 1 and quiet:
            return
        excerpt = start.stderr.strip() or f"armed finders: {start.armed}"
    summary = f"{target.python} does not start cleanly with the shim, which was removed again"
    remedy = f"look at the other `.pth` files and at sitecustomize in {target.site_dir}"
    finding = BREAKS_START.finding(summary, evidence=(Evidence(excerpt=excerpt),), remedy=remedy)
    raise PreparationError(summary, hint=remedy, findings=(finding,))
