# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: imports a rule's modules in a child of the target interpreter, before any start of it will do so."""

import os
import signal
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.preload.interpreter import Answer, ask, clean_environment
from ci_doctor.preload.preload_rule import Preload, PreloadRule, merge
from ci_doctor.preload.target import Target

# Cold imports of torch from a network file system take tens of seconds.
TRIAL_TIMEOUT_S = 180.0
EXCERPT_LINES = 40

# Says {"found": bool, "error": str | null} on the last line of stdout; what the module prints goes to stderr.
# os._exit: threads that the module started must not hold up the answer.
_TRIAL = """
import json, os, sys, traceback
from importlib.util import find_spec
preloads = [(module, names.split(",") if names else []) for module, _, names in (text.partition(":") for text in sys.argv[1:])]
del sys.argv[1:]
sys.path[:] = [entry for entry in sys.path if entry]
stdout = os.dup(1)
os.dup2(2, 1)
found, error = all(find_spec(module.partition(".")[0]) for module, _ in preloads), None
for module, attributes in preloads if found else ():
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
os.write(stdout, b"\\n" + json.dumps({"found": found, "error": error}).encode() + b"\\n")
os._exit(0)
"""


class _Outcome(Struct, frozen=True, kw_only=True):
    found: bool
    error: str | None


def try_preloads(
    target: Target, rules: Sequence[PreloadRule], *, timeout_s: float = TRIAL_TIMEOUT_S
) -> tuple[Finding, ...]:
    """What importing the modules of `rules` does to the target, each in a fresh child with a time limit.

    An error where a preload would end or hang every process that imports the trigger; a warning where it raises, which
    the shim survives; a note where the package is not installed yet. Nothing where all is well.
    """
    armed = merge((), rules)
    alone = {preload.module: preload for rule in armed for preload in rule.preloads}
    findings = [_try(target, (preload,), timeout_s) for preload in alone.values()]
    if not any(finding and finding.severity is Severity.ERROR for finding in findings):
        # What each survives alone, they may not survive together: one process gets all of a rule.
        together = (
            _try(target, rule.preloads, timeout_s) for rule in armed if len(rule.preloads) > 1
        )
        findings += [
            finding for finding in together if finding and finding.severity is Severity.ERROR
        ]
    return tuple(finding for finding in findings if finding)


def _try(target: Target, preloads: Sequence[Preload], timeout_s: float) -> Finding | None:
    # PYTHONPATH stays: the job's modules may come from there.
    environment = clean_environment(os.environ, keep=("PYTHONPATH",))
    environment |= {
        "CI_DOCTOR_PRELOAD": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONFAULTHANDLER": "1",
    }
    specs = [f"{preload.module}:{','.join(preload.attributes)}" for preload in preloads]
    answer = ask(target.python, "-c", _TRIAL, *specs, timeout_s=timeout_s, environment=environment)
    return judge(target, preloads, answer, timeout_s)


def judge(
    target: Target, preloads: Sequence[Preload], answer: Answer, timeout_s: float
) -> Finding | None:
    """The finding about the trial of `preloads`, one after the other, that gave `answer`; None where it went well."""
    module, python = ", ".join(preload.module for preload in preloads), target.python
    see = f"see it with `{python} -X faulthandler -c 'import {module}'`"
    if answer.exit_code is None:
        summary = (
            f"importing {module} with {python} took longer than {timeout_s:.0f} s and was stopped"
        )
        return _finding(
            "hangs",
            Severity.ERROR,
            summary,
            answer,
            f"{see}; then leave {module} out of the preload rules",
        )
    outcome = _outcome(answer)
    if outcome is None:
        summary = f"importing {module} ends {python}: {_how_it_ended(answer.exit_code)}"
        return _finding(
            "crashes",
            Severity.ERROR,
            summary,
            answer,
            f"{see}; then leave {module} out of the preload rules",
        )
    if not outcome.found:
        summary = f"{module} is not installed for {python} yet; the shim works as soon as it is"
        return Finding(rule="preload/not-installed", severity=Severity.NOTE, summary=summary)
    if outcome.error:
        summary = f"importing {module} with {python} fails now: {outcome.error}"
        return _finding("fails-now", Severity.WARNING, summary, answer, see)
    return None


def _outcome(answer: Answer) -> _Outcome | None:
    try:
        return msgspec.json.decode(answer.stdout.strip().splitlines()[-1], type=_Outcome)
    except (msgspec.DecodeError, IndexError):
        return None


def _how_it_ended(exit_code: int) -> str:
    if exit_code >= 0:
        return f"exit code {exit_code} without a Python exception"
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return f"signal {-exit_code}"


def _finding(what: str, severity: Severity, summary: str, answer: Answer, remedy: str) -> Finding:
    excerpt = "\n".join(answer.stderr.strip().splitlines()[-EXCERPT_LINES:])
    evidence = (Evidence(excerpt=excerpt),) if excerpt else ()
    return Finding(
        rule=f"preload/{what}", severity=severity, summary=summary, evidence=evidence, remedy=remedy
    )
