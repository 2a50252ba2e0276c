# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: whether one interpreter can lose an import of a module to another thread's."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from ci_doctor.errors import InfraError, UsageError
from ci_doctor.imports.crossings import Hold
from ci_doctor.imports.one_module import REPLACED
from ci_doctor.imports.recording import FOLDER, recording
from ci_doctor.imports.trace import End, read_traces
from ci_doctor.machine.interpreters import ask
from ci_doctor.model.facts.import_race import ImportProbeFacts
from ci_doctor.model.outcome import Evidence, Finding, Outcome, Severity, Table, Verdict, row
from ci_doctor.preload.injection import with_rules
from ci_doctor.preload.interpreter import read_answer
from ci_doctor.preload.preload_rule import Preload, PreloadRule, format_rule
from ci_doctor.preload.trial import self_replacement_race
from ci_doctor.system.files.access import own_directory
from ci_doctor.system.processes.limited_runs import SeparateRun

_VERDICTS = {True: Verdict.FAILED, False: Verdict.PASS, None: Verdict.VOID}


def run(
    python: Path, module: str, attribute: str = "", *, environ: Mapping[str, str] = os.environ
) -> Outcome:
    """What a probe means: `failed` if the module is exposed, `void` if it cannot be imported.

    Parameters and errors are those of `probe`.
    """
    return probe_outcome(probe(python, module, attribute, environ=environ))


def probe_outcome(result: ImportProbeFacts) -> Outcome:
    """What the result means: `failed` if the module is exposed, `void` if it cannot be imported."""
    rows = [row("interpreter", result.python)]
    if result.immune:
        rows.append(row("immune", "it looks again after waiting"))
    if result.replaced:
        rows.append(row("replaced themselves", ", ".join(result.replaced)))
    return Outcome(
        verdict=_VERDICTS[result.exposed],
        summary=_summary(result),
        findings=tuple(_findings(result)),
        tables=(Table(title="Probe", rows=tuple(rows)),),
        facts=result,
    )


def _summary(result: ImportProbeFacts) -> str:
    module = result.module
    target = f"{module}:{result.attribute}" if result.attribute else module
    if result.exposed is None:
        return f"{target} cannot be imported, so nothing is known: {result.error}"
    if result.exposed:
        return f"{target} is exposed: its import is lost while another thread imports {module}"
    why = f"{module} replaces itself, and {result.attribute or 'it'} is the same in what was there before"
    if result.loaded_before:
        why = f"{module} is loaded at every start of this interpreter"
    elif module not in result.replaced:
        why = f"{module} does not replace itself in sys.modules"
    elif result.immune:
        why = f"{module} replaces itself, and this interpreter looks again after waiting"
    return f"{target} is not exposed: {why}"


def _remedy(result: ImportProbeFacts) -> str:
    """With a command in which two threads race for the import, and the preload rule decides it."""
    if result.rule is None:
        return (
            "import it on the main thread before the first thread starts: this interpreter loads "
            "`threading` at each start before a shim, so no preload rule with that trigger can fire"
        )
    wanted = f"import {result.module}"
    if result.attribute:
        wanted = f"from {result.module} import {result.attribute}"
    program = (
        "import threading; "
        f"thread = threading.Thread(target=__import__, args=({result.module!r},)); "
        f"thread.start(); {wanted}; thread.join()"
    )
    words = ("run", "--preload", result.rule, "--", result.python, "-c", program)
    return (
        "import it before the first thread starts. This preloads it, and two threads "
        f"no longer race: `ci-doctor {shlex.join(words)}`. Put your own command in place of "
        "that Python"
    )


def _findings(result: ImportProbeFacts) -> list[Finding]:
    if result.exposed:
        received = "the main thread was given another object than the module that stays"
        finding = REPLACED.rule.finding(
            f"{result.module} replaces itself in sys.modules, "
            "and who waits for its import gets what was there before",
            evidence=(Evidence(excerpt=result.error or received),),
            remedy=_remedy(result),
            severity=Severity.ERROR,
        )
        return [finding]
    return []


# Cold imports of torch from a network file system take tens of seconds.
TIMEOUT_S = 180.0
# Far longer than needed: the main thread requests the module as soon as it is in sys.modules.
_HOLD_S = 30.0
_PROGRAM = FOLDER / "_ci_doctor_probe.py"
# The probe is about an interpreter without a shim, and it leaves no bytecode behind.
_VARIABLES = {
    "CI_DOCTOR_PRELOAD": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONFAULTHANDLER": "1",
}


class _ProbeAnswer(Struct, frozen=True, kw_only=True):
    """What the program prints.

    failed: the module cannot be imported at all. error: the main thread's import raised this.
    stale: it received another object than the one that stays. absent: even after the race the
    module has no such attribute.
    """

    loaded_before: bool
    failed: str
    error: str
    stale: bool
    absent: str


def probe(
    python: Path, module: str, attribute: str, *, environ: Mapping[str, str]
) -> ImportProbeFacts:
    """Let two threads of a child of `python` import `module`, or `attribute` from it if not empty.

    The recorder holds one of them for the other. The import happens once, in the working directory
    and under `environ`. Raises UsageError if `python` cannot be run, InfraError if it cannot be
    probed.
    """
    immune = not self_replacement_race(python)
    with own_directory("import-probe") as folder:
        hold = Hold(mode="exec", x=module, limit_s=_HOLD_S)
        environment = recording({**environ, **_VARIABLES}, Path(folder), hold.text())
        program = _PROGRAM.read_text(encoding="utf-8")
        # By -c, as then the working directory is in sys.path, and not the folder of the program.
        run = ask(
            python, "-c", program, module, attribute, timeout_s=TIMEOUT_S, environment=environment
        )
        processes, _ = read_traces(Path(folder))
    # Without the recorder nothing held the import back, and a good answer would mean nothing.
    if run.exit_code == 0 and not any(process.armed for process in processes):
        raise InfraError(
            f"{python} cannot be recorded, so nothing is known of it",
            hint="name another interpreter",
        )
    answer = _read(run)
    impossible = answer.failed or answer.absent
    exposed = None if impossible else bool(answer.error) or answer.stale
    preload = Preload(module=module, attributes=(attribute,) if attribute else ())
    rule = PreloadRule(trigger="threading", preloads=(preload,))
    events = [event for process in processes for event in process.events]
    replaced = [event.name for event in events if isinstance(event, End) and event.replaced]
    return ImportProbeFacts(
        module=module,
        attribute=attribute or None,
        python=str(python),
        exposed=exposed,
        error=impossible or answer.error or None,
        loaded_before=answer.loaded_before,
        replaced=tuple(dict.fromkeys(replaced)),
        immune=immune,
        rule=format_rule(rule) if exposed and _wins(python, rule, environ) else None,
    )


def _wins(python: Path, rule: PreloadRule, environ: Mapping[str, str]) -> bool:
    """Whether the module is there before any thread can be, in a program that loads `threading`.

    Each Python that starts a thread by `threading` or a pool loads that module before. The rule
    cannot fire where something loads it at every start, before any shim.
    """
    (preload,) = rule.preloads
    names = ",".join(preload.attributes)
    environment = with_rules({**environ, **_VARIABLES, "CI_DOCTOR_PRELOAD": "1"}, (rule,))
    program = f"import threading\n{_PROGRAM.read_text(encoding='utf-8')}"
    run = ask(
        *(python, "-c", program, preload.module, names),
        timeout_s=TIMEOUT_S,
        environment=environment,
    )
    answer = _read(run)
    return run.exit_code == 0 and answer.loaded_before and not (answer.failed or answer.absent)


def _read(run: SeparateRun) -> _ProbeAnswer:
    # The module may print while it is imported: the answer is the last line.
    answer = read_answer(run, _ProbeAnswer)
    if answer is not None:
        return answer
    failed = f"the interpreter ended with exit code {run.exit_code}: {run.last_words}"
    if run.exit_code is None:
        failed = f"the import took longer than {TIMEOUT_S:g} s and was stopped"
    return _ProbeAnswer(loaded_before=False, failed=failed, error="", stale=False, absent="")


def parse_target(text: str) -> tuple[str, str]:
    """The two names of `MODULE` or `MODULE:ATTR`; the second is empty if there is none.

    Raises UsageError if `text` has another form.
    """
    module, colon, attribute = text.partition(":")
    names = module.split(".")
    if colon:
        names.append(attribute)
    if not all(name.isidentifier() for name in names):
        raise UsageError(
            f"{text!r} is not MODULE or MODULE:ATTR",
            hint="write, for example, transformers:GenerationConfig",
        )
    return module, attribute
