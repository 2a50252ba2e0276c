# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: imports a rule's modules in a child of the target, before any program does."""

import os
import signal
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.model.rule import Rule
from ci_doctor.preload import rules as finding_rules
from ci_doctor.preload.interpreter import Answer, ask, clean_environment
from ci_doctor.preload.preload_rule import Preload, PreloadRule, merge
from ci_doctor.preload.target import Target

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


class _TrialResult(Struct, frozen=True, kw_only=True):
    is_installed: bool
    error: str | None


def try_preloads(
    target: Target, rules: Sequence[PreloadRule], *, timeout_s: float = TRIAL_TIMEOUT_S
) -> tuple[Finding, ...]:
    """What importing the modules of `rules` does to the target, each in a fresh child.

    An error if a preload would end or hang every process that imports the trigger; a warning if it
    raises, which the shim survives; a note if the package is not installed yet. Nothing if all is
    well.
    """
    armed = merge((), rules)
    alone: dict[str, Preload] = {}
    for rule in armed:
        for preload in rule.preloads:
            alone[preload.module] = preload
    findings = _try_each(target, [(preload,) for preload in alone.values()], timeout_s)
    if not any(finding.severity is Severity.ERROR for finding in findings):
        # What a process survives alone, it may not survive together: one process gets all of a
        # rule.
        together = [rule.preloads for rule in armed if len(rule.preloads) > 1]
        for finding in _try_each(target, together, timeout_s):
            # A warning or note was made above already, for the module itself.
            if finding.severity is Severity.ERROR:
                findings.append(finding)
    return tuple(findings)


def _try_each(
    target: Target, groups: Sequence[Sequence[Preload]], timeout_s: float
) -> list[Finding]:
    findings = [_try(target, preloads, timeout_s) for preloads in groups]
    return [finding for finding in findings if finding is not None]


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
    """The finding about the trial of `preloads` in one process; None if it went well."""
    module = ", ".join(preload.module for preload in preloads)
    python = target.python
    see = f"see it with `{python} -X faulthandler -c 'import {module}'`"
    leave_out = f"{see}; then leave {module} out of the preload rules"
    if answer.exit_code is None:
        limit = f"{timeout_s:.0f} s"
        summary = f"importing {module} with {python} took longer than {limit} and was stopped"
        return _finding(finding_rules.HANGS, summary, answer, leave_out)
    result = _result(answer)
    if result is None:
        summary = f"importing {module} ends {python}: {_how_it_ended(answer.exit_code)}"
        return _finding(finding_rules.CRASHES, summary, answer, leave_out)
    if not result.is_installed:
        summary = f"{module} is not installed for {python} yet; the shim works as soon as it is"
        return finding_rules.NOT_INSTALLED.finding(summary)
    if result.error:
        summary = f"importing {module} with {python} fails now: {result.error}"
        return _finding(finding_rules.FAILS_NOW, summary, answer, see)
    return None


def _result(answer: Answer) -> _TrialResult | None:
    try:
        return msgspec.json.decode(answer.last_line, type=_TrialResult)
    except (msgspec.DecodeError, IndexError):
        return None


def _how_it_ended(exit_code: int) -> str:
    if exit_code >= 0:
        return f"exit code {exit_code} without a Python exception"
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return f"signal {-exit_code}"


def _finding(rule: Rule, summary: str, answer: Answer, remedy: str) -> Finding:
    excerpt = "\n".join(answer.stderr.strip().splitlines()[-EXCERPT_LINES:])
    evidence = (Evidence(excerpt=excerpt),) if excerpt else ()
    return rule.finding(summary, evidence=evidence, remedy=remedy)
