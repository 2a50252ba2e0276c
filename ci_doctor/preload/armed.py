# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: whether an interpreter starts with the shim armed, as it was written, and idle."""

import os
import tempfile
from pathlib import Path

import msgspec
from msgspec import Struct

from ci_doctor.errors import InfraError
from ci_doctor.preload.checks import Check, CheckOutcome
from ci_doctor.preload.interpreter import ask, clean_environment
from ci_doctor.preload.plan import move_away
from ci_doctor.preload.preload_rule import Preload, PreloadRule
from ci_doctor.preload.shim_files import FINDER, MODULES, RUNTIME
from ci_doctor.preload.site import FileCondition, SiteState
from ci_doctor.preload.start_cost import START_TIMEOUT_S, start_cost_us
from ci_doctor.preload.target import Target

COST_LIMIT_US = 5_000

# Words of `Seen`. json is imported last, and not by way of the shim: it could be a trigger.
_SEE = f"""
import sys
ours = sys.modules.get({Path(FINDER).stem!r})
seen = {{
    "armed": sum(each is ours for each in sys.meta_path) if ours else 0,
    "runtime": {Path(RUNTIME).stem!r} in sys.modules,
    "rules": getattr(ours, "RULES", None),
}}
sys.meta_path = [each for each in sys.meta_path if each is not ours]
import json
print()
print(json.dumps(seen))
"""


class ArmedStart(Struct, frozen=True, kw_only=True):
    """A start: how many finders of ours are armed, whether the runtime is loaded, the rules, and what was traced."""

    armed: int
    runtime: bool
    rules: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] | None
    trace: str = ""

    @property
    def parsed_rules(self) -> tuple[PreloadRule, ...]:
        """The rules that the armed finder holds."""
        return tuple(
            PreloadRule(
                trigger=trigger,
                preloads=tuple(Preload(module=name, attributes=names) for name, names in preloads),
            )
            for trigger, preloads in (self.rules or {}).items()
        )


def see_start(target: Target, *options: str) -> ArmedStart:
    """Start `target` with `options`. Raises InfraError where it does not answer."""
    with tempfile.TemporaryDirectory(prefix="ci-doctor-verify-") as directory:
        trace = Path(directory) / "trace"
        environment = clean_environment(os.environ) | {"CI_DOCTOR_PRELOAD_TRACE": str(trace)}
        answer = ask(
            target.python,
            *options,
            "-B",
            "-c",
            _SEE,
            timeout_s=START_TIMEOUT_S,
            environment=environment,
        )
        told = trace.read_text("utf-8", "replace") if trace.exists() else ""
    try:
        seen = msgspec.json.decode(answer.stdout.strip().splitlines()[-1], type=ArmedStart)
    except (msgspec.DecodeError, IndexError):
        raise InfraError(
            f"{target.python} does not start: {answer.last_error_line}",
            hint=f"run `{target.python} -c pass`",
        ) from None
    return msgspec.structs.replace(seen, trace=told)


def judge_files(target: Target, state: SiteState, ordinary: ArmedStart) -> Check:
    """Whether the files lie there as they were written, and the rules in them are those of the manifest."""
    name = "files"
    remedy = "take it out and install it again: `ci-doctor preload remove`, then `ci-doctor preload install`"
    wrong = {
        file: condition
        for file, condition in state.conditions.items()
        if condition is not FileCondition.OURS
    }
    if wrong:
        said = ", ".join(f"{file} is {condition}" for file, condition in wrong.items())
        sentence = f"the shim in {target.site_dir} is not as it was written: {said}"
        there = [file for file, condition in wrong.items() if condition is not FileCondition.ABSENT]
        remedy = move_away(target.site_dir / there[0]) if there else remedy
    elif ordinary.armed and set(ordinary.parsed_rules) != set(state.rules):
        sentence = f"the rules that {target.python} has armed are not those of the manifest in {target.site_dir}"
    else:
        sentence = f"{len(state.conditions)} files as they were written, rules as in the manifest"
        return Check(name=name, outcome=CheckOutcome.PASSED, sentence=sentence)
    return Check(
        name=name,
        outcome=CheckOutcome.FAILED,
        sentence=sentence,
        rule="preload/edited-file",
        remedy=remedy,
    )


def judge_armed(
    target: Target, ordinary: ArmedStart, isolated: ArmedStart, without_site: ArmedStart
) -> Check:
    """Whether each start has armed the shim once and left it idle; `-S` reads no `.pth`, which is said."""
    for start, seen in (("an ordinary start", ordinary), ("a start with -I", isolated)):
        if seen.armed != 1:
            wrong = f"{start} of {target.python} arms the shim {seen.armed} times, not once"
        elif seen.runtime or seen.trace:
            wrong = f"{start} of {target.python} already preloads"
        else:
            continue
        return Check(
            name="armed",
            outcome=CheckOutcome.FAILED,
            sentence=wrong,
            rule="preload/not-armed",
            evidence=seen.trace,
            remedy="see what else runs at its start: `ci-doctor preload status`",
        )
    skipped = "-S is not covered" if not without_site.armed else "under -S something else arms it"
    sentence = f"armed once and idle, under -I too; {skipped}"
    return Check(name="armed", outcome=CheckOutcome.PASSED, sentence=sentence)


def check_cost(target: Target) -> Check:
    """What the shim adds to a start, against COST_LIMIT_US."""
    return judge_cost(target, start_cost_us(target, {Path(name).stem for name in MODULES}))


def judge_cost(target: Target, cost_us: int | None) -> Check:
    """`cost_us` as measured, None where no start imported the shim."""
    if cost_us is None:
        sentence = f"no start of {target.python} imports the shim, so its cost cannot be measured"
        return Check(
            name="start-cost", outcome=CheckOutcome.VOID, sentence=sentence, rule="preload/unproven"
        )
    figure = f"{cost_us} us of a start by -X importtime (median of 5)"
    if cost_us <= COST_LIMIT_US:
        return Check(
            name="start-cost", outcome=CheckOutcome.PASSED, sentence=f"the shim takes {figure}"
        )
    return Check(
        name="start-cost",
        outcome=CheckOutcome.FAILED,
        sentence=f"the shim takes {figure}; {COST_LIMIT_US} is the limit",
        rule="preload/start-cost",
        remedy="install it again: without its bytecode a start compiles it",
    )
