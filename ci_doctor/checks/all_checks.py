# SPDX-License-Identifier: Apache-2.0
"""Reads which checks there are, and which of them make sense here."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from importlib import import_module

from ci_doctor.checks.check import DoctorCheck, Need
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.settings import DoctorSettings
from ci_doctor.errors import UsageError
from ci_doctor.machine.gpus import shows_gpu
from ci_doctor.model.finding import Rule
from ci_doctor.model.words import nearest

# The modules with the checks, in the order of a report; a new one adds its line here.
TOPICS = (
    "gpu.driver",
    "gpu.devices",
    "gpu.xids",
    "gpu.cuda",
    "disks",
    "limits",
    "network",
    "leftovers",
    "checkout",
    "python.interpreters",
    "python.paths",
    "python.packages",
    "starts",
    "own",
)
# Options of `ci-doctor doctor` that take time of their own, and the modules of each.
ON_REQUEST = {
    "imports": ("entry_points",),
    "gpu": ("gpu_proof",),
}
# The area of their checks, and the option.
_OPTION_OF = {"imports": "imports", "gpu_proof": "gpu"}


def all_checks(settings: DoctorSettings, requested: Sequence[str] = ()) -> tuple[DoctorCheck, ...]:
    """Every check, those of the repository too; of ON_REQUEST only what is `requested`.

    A module's checks are its own DoctorCheck values in order of definition. One whose checks depend
    on the settings has a function `checks` that returns them instead.
    """
    checks: list[DoctorCheck] = []
    for name in (*TOPICS, *(name for option in requested for name in ON_REQUEST[option])):
        module = import_module(f"ci_doctor.checks.{name}")
        if hasattr(module, "checks"):
            checks.extend(module.checks(settings))
            continue
        checks.extend(
            each
            for each in vars(module).values()
            if isinstance(each, DoctorCheck) and each.run.__module__ == module.__name__
        )
    return tuple(checks)


def all_rules() -> tuple[Rule, ...]:
    """The rules of what `ci-doctor doctor` finds: those of checks as such, and of each module."""
    rules: dict[str, Rule] = {}
    for name in (
        "running",
        *TOPICS,
        *(name for names in ON_REQUEST.values() for name in names),
    ):
        for value in vars(import_module(f"ci_doctor.checks.{name}")).values():
            if isinstance(value, Rule):
                rules[value.id] = value
    return tuple(rules.values())


def requested_by(wanted: Sequence[str]) -> tuple[str, ...]:
    """The options of ON_REQUEST whose checks `wanted` names: `imports/services` needs no option."""
    areas = {name.partition("/")[0] for name in wanted}
    return tuple(option for area, option in _OPTION_OF.items() if area in areas)


def chosen(
    checks: Sequence[DoctorCheck], wanted: Sequence[str], skipped: Sequence[str]
) -> tuple[DoctorCheck, ...]:
    """The checks that a name of `wanted` matches (all, if it is empty), and none of `skipped`.

    A name is an id, an area, or a pattern (fnmatch). Raises UsageError for one that matches nothing.
    What was not requested can be left out all the same: one configuration serves all jobs.
    """
    areas = {check.area for check in checks}
    for name in wanted:
        _require_match(name, checks)
    for name in skipped:
        area = name.partition("/")[0]
        if area in areas or area not in _OPTION_OF:
            _require_match(name, checks)
    kept = []
    for check in checks:
        is_wanted = not wanted or any(_matches(check, name) for name in wanted)
        if is_wanted and not any(_matches(check, name) for name in skipped):
            kept.append(check)
    return tuple(kept)


def _require_match(name: str, checks: Sequence[DoctorCheck]) -> None:
    if any(_matches(check, name) for check in checks):
        return
    known = {*_OPTION_OF}
    for check in checks:
        known |= {check.id, check.area}
    near = nearest(name, known)
    hint = f"did you mean `{near}`?" if near is not None else "`ci-doctor doctor --list` names all"
    raise UsageError(f"no check is named `{name}`", hint=hint)


def _matches(check: DoctorCheck, name: str) -> bool:
    return name in {check.id, check.area} or fnmatchcase(check.id, name)


def missing_need(check: DoctorCheck, context: CheckContext) -> str | None:
    """Why `check` makes no sense here, as a clause; None if it does."""
    return None if _is_met(check.need, context) else check.need.value


def _is_met(need: Need, context: CheckContext) -> bool:
    match need:
        case Need.NOTHING:
            return True
        case Need.GPU:
            return shows_gpu(context.root, context.environ)
        case Need.INTERPRETER:
            return bool(context.targets)
        case Need.GIT_CHECKOUT:
            return any((place / ".git").exists() for place in (context.cwd, *context.cwd.parents))
        case Need.SERVICES:
            return bool(context.services)
