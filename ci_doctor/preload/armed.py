# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: whether an interpreter starts with the shim armed, unchanged, and idle."""

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from ci_doctor.errors import InfraError
from ci_doctor.preload import rules
from ci_doctor.preload.checks import Check, CheckOutcome
from ci_doctor.preload.interpreter import ask, clean_environment
from ci_doctor.preload.preload_rule import Preload, PreloadRule
from ci_doctor.preload.shim_files import FINDER, RUNTIME
from ci_doctor.preload.site import FileCondition, SiteState, move_away
from ci_doctor.preload.start_cost import START_TIMEOUT_S, start_cost_us
from ci_doctor.preload.target import Target
from ci_doctor.system.files.own_directory import own_directory

COST_LIMIT_US = 5_000

# Prints the fields of ArmedStart. json is imported last, and not through the shim: it could be a
# trigger.
_PROBE = f"""
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


class ArmedStart(Struct, frozen=True, kw_only=True):
    """A start: the number of our armed finders, whether the runtime is loaded, rules, trace."""

    armed: int
    runtime: bool
    rules: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] | None
    trace: str = ""

    @property
    def parsed_rules(self) -> tuple[PreloadRule, ...]:
        """The rules that the armed finder holds."""
        parsed = []
        for trigger, pairs in (self.rules or {}).items():
            preloads = tuple(Preload(module=name, attributes=names) for name, names in pairs)
            parsed.append(PreloadRule(trigger=trigger, preloads=preloads))
        return tuple(parsed)


def observe_start(target: Target, *options: str) -> ArmedStart:
    """Start `target` with `options`. Raises InfraError if it does not answer."""
    with own_directory("verify") as directory:
        trace = Path(directory) / "trace"
        environment = clean_environment(os.environ) | {"CI_DOCTOR_PRELOAD_TRACE": str(trace)}
        words = (*options, "-B", "-c", _PROBE)
        answer = ask(target.python, *words, timeout_s=START_TIMEOUT_S, environment=environment)
        lines = trace.read_text("utf-8", "replace") if trace.exists() else ""
    try:
        start = msgspec.json.decode(answer.last_line, type=ArmedStart)
    except (msgspec.DecodeError, IndexError):
        raise InfraError(
            f"{target.python} does not start: {answer.last_error_line}",
            hint=f"run `{target.python} -c pass`",
        ) from None
    return msgspec.structs.replace(start, trace=lines)


def judge_files(target: Target, state: SiteState, ordinary: ArmedStart) -> Check:
    """Whether the files are as they were written, and their rules those of the manifest."""
    if set(state.conditions.values()) != {FileCondition.OURS}:
        return _changed_files(target, state)
    if ordinary.armed and set(ordinary.parsed_rules) != set(state.rules):
        sentence = (
            f"the rules that {target.python} has armed are not those of the manifest "
            f"in {target.site_dir}"
        )
        return _failed_files(sentence, _REINSTALL)
    sentence = f"{len(state.conditions)} files as they were written, rules as in the manifest"
    return Check(name="files", outcome=CheckOutcome.PASSED, sentence=sentence)


_REINSTALL = (
    "remove it and install it again: `ci-doctor preload remove`, then `ci-doctor preload install`"
)


def _changed_files(target: Target, state: SiteState) -> Check:
    faults = []
    remedy = None
    for file, condition in state.conditions.items():
        if condition is FileCondition.OURS:
            continue
        faults.append(f"{file} is {condition}")
        # What is damaged or missing an installation makes again.
        is_repairable = condition in (FileCondition.ABSENT, FileCondition.DAMAGED)
        if remedy is None and not is_repairable:
            remedy = move_away(target.site_dir / file)
    sentence = f"the shim in {target.site_dir} is not as it was written: {', '.join(faults)}"
    return _failed_files(sentence, remedy or _REINSTALL)


def _failed_files(sentence: str, remedy: str) -> Check:
    return Check(
        name="files",
        outcome=CheckOutcome.FAILED,
        sentence=sentence,
        rule=rules.EDITED_FILE,
        remedy=remedy,
    )


def judge_armed(
    target: Target, ordinary: ArmedStart, isolated: ArmedStart, without_site: ArmedStart
) -> Check:
    """Whether each start has armed the shim once and left it idle.

    `-S` reads no `.pth`, so the check reports it and does not judge it.
    """
    name = "armed"
    for words, start in (("an ordinary start", ordinary), ("a start with -I", isolated)):
        if start.armed != 1:
            fault = f"{words} of {target.python} arms the shim {start.armed} times, not once"
        elif start.runtime or start.trace:
            fault = f"{words} of {target.python} already preloads"
        else:
            continue
        return Check(
            name=name,
            outcome=CheckOutcome.FAILED,
            sentence=fault,
            rule=rules.NOT_ARMED,
            evidence=start.trace,
            remedy=rules.NOT_ARMED.remedy,
        )
    skipped = "-S is not covered" if not without_site.armed else "under -S something else arms it"
    sentence = f"armed once and idle, under -I too; {skipped}"
    return Check(name=name, outcome=CheckOutcome.PASSED, sentence=sentence)


def check_cost(target: Target) -> Check:
    """What the shim adds to a start, in CPU time, against COST_LIMIT_US."""
    return judge_cost(target, start_cost_us(target, Path(FINDER).stem))


def judge_cost(target: Target, cost_us: int | None) -> Check:
    """`cost_us` as measured, None if no start imported the shim."""
    name = "start-cost"
    if cost_us is None:
        sentence = f"no start of {target.python} imports the shim, so its cost cannot be measured"
        return Check(name=name, outcome=CheckOutcome.VOID, sentence=sentence, rule=rules.UNPROVEN)
    sentence = f"the shim takes {cost_us} us of CPU time of a start (the least of 5)"
    if cost_us <= COST_LIMIT_US:
        return Check(name=name, outcome=CheckOutcome.PASSED, sentence=sentence)
    return Check(
        name=name,
        outcome=CheckOutcome.FAILED,
        sentence=f"{sentence}; {COST_LIMIT_US} is the limit",
        rule=rules.START_COST,
        remedy=rules.START_COST.remedy,
    )
