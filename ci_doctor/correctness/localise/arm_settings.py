# SPDX-License-Identifier: Apache-2.0
"""In which settings two arms differ, and an arm that has some of the candidate's. Pure.

A setting is one variable, one flag with its values, one pinned package, or what stands before the first
flag of a command.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from ci_doctor.correctness.settings import Arm, ArmPlan
from ci_doctor.errors import UsageError
from ci_doctor.services.spec import ServiceSpec

# `-1` is a value, and `--seed -1` one flag.
_FLAG = re.compile(r"-{1,2}[A-Za-z]")
# Of a service, what is neither its command nor its variables.
_REST = tuple(each for each in ServiceSpec.__struct_fields__ if each not in {"command", "env"})


class ArmSetting(Struct, frozen=True, kw_only=True):
    """One thing in which the arms differ.

    `service` is its place among an arm's services, None for a pin. `kind` is `variable`, `flag`, `command`,
    `rest` or `pin`, `name` that of the variable, flag or package. `words` say what the candidate has.
    """

    service: int | None
    kind: str
    name: str
    words: str


class ArmPair(Struct, frozen=True, kw_only=True):
    """Two arms, the lines of their pins by package, and the settings in which they differ."""

    arms: Mapping[Arm, ArmPlan]
    pins: Mapping[Arm, Mapping[str, str]]
    settings: tuple[ArmSetting, ...]

    @property
    def pinned(self) -> tuple[int, ...]:
        """The settings that decide what is installed."""
        return tuple(at for at, each in enumerate(self.settings) if each.kind == "pin")

    def arm(self, point: int) -> ArmPlan:
        """The baseline with those settings of the candidate whose bits are set."""
        base, other = (self.arms[arm] for arm in Arm)
        chosen = {
            (each.service, each.kind, each.name)
            for bit, each in enumerate(self.settings)
            if point >> bit & 1
        }
        specs = dict(base.specs)
        for place, (name, own) in enumerate(zip(base.names, other.names, strict=True)):
            specs[name] = _mixed(base.specs[name], other.specs[own], place, chosen)
        return replace(base, specs=specs)

    def pins_of(self, point: int) -> str:
        """The lines of a file of pins for these settings."""
        base, other = (dict(self.pins[arm]) for arm in Arm)
        for bit, each in enumerate(self.settings):
            if each.kind == "pin" and point >> bit & 1:
                base.pop(each.name, None)
                if each.name in other:
                    base[each.name] = other[each.name]
        return "".join(f"{line}\n" for line in base.values())

    def shell(self, point: int) -> str:
        """The command lines of the services with these settings, as a shell takes them."""
        arm = self.arm(point)
        lines = []
        for name in arm.names:
            spec = arm.specs[name]
            variables = [f"{key}={shlex.quote(value)}" for key, value in spec.env.items()]
            lines.append(" ".join([*variables, shlex.join(spec.words())]))
        for bit in self.pinned:
            setting = self.settings[bit]
            arm_of_pin = Arm.CANDIDATE if point >> bit & 1 else Arm.BASELINE
            pin = self.pins[arm_of_pin].get(setting.name, f"{setting.name} absent")
            lines.append(f"# pin: {pin}")
        return "\n".join(lines)


def pair_of(arms: Mapping[Arm, ArmPlan], pins: Mapping[Arm, str]) -> ArmPair:
    """The arms and the settings in which they differ; `pins` are the texts of their files of pins.

    Raises UsageError if they start different numbers of services, differ in nothing, or a pin is no
    requirement.
    """
    base, other = (arms[arm] for arm in Arm)
    if len(base.names) != len(other.names):
        raise UsageError(
            f"the baseline starts {len(base.names)} services and the candidate {len(other.names)}: "
            "they differ in more than settings",
            hint="give both arms the same services",
        )
    lines = {arm: _pins(pins.get(arm, ""), arm) for arm in Arm}
    settings: list[ArmSetting] = []
    for place, (name, own) in enumerate(zip(base.names, other.names, strict=True)):
        where = f"{own}: " if len(base.names) > 1 else ""
        settings += _differences(base.specs[name], other.specs[own], place, where)
    for name in sorted({*lines[Arm.BASELINE], *lines[Arm.CANDIDATE]}):
        before, after = (lines[arm].get(name) for arm in Arm)
        if _meaning(before) != _meaning(after):
            words = after or f"{name} is not pinned"
            settings.append(ArmSetting(service=None, kind="pin", name=name, words=words))
    if not settings:
        raise UsageError(
            "the arms do not differ in any variable, flag or pin",
            hint="give the candidate another setting, such as --env candidate:NAME=VALUE",
        )
    return ArmPair(arms=arms, pins=lines, settings=tuple(settings))


def _pins(text: str, arm: Arm) -> dict[str, str]:
    """The lines of a file of requirements by package; options of pip by themselves."""
    lines: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.partition(" #")[0].strip()
        if not content or content.startswith("#"):
            continue
        if content.startswith("-"):
            lines[content] = content
            continue
        try:
            lines[canonicalize_name(Requirement(content).name)] = content
        except InvalidRequirement as error:
            raise UsageError(
                f"line {number} of the {arm}'s pins is no requirement: {content}: {error}",
                hint="write one requirement a line, such as torch==2.13.0",
            ) from error
    return lines


def _meaning(line: str | None) -> str | None:
    """A pin without the spelling of its name."""
    if line is None or line.startswith("-"):
        return line
    requirement = Requirement(line)
    requirement.name = canonicalize_name(requirement.name)
    return str(requirement)


def _flags(spec: ServiceSpec) -> tuple[list[str], dict[str, list[str]]]:
    """The words before the first flag, and the words of each flag with its values."""
    head: list[str] = []
    flags: dict[str, list[str]] = {}
    own = head
    for word in spec.words():
        if _FLAG.match(word) and (flags or head):
            # A flag that stands twice is one setting.
            own = flags.setdefault(word.partition("=")[0], [])
        own.append(word)
    return head, flags


def _differences(
    base: ServiceSpec, other: ServiceSpec, place: int, where: str
) -> Iterator[ArmSetting]:
    def made(kind: str, name: str, words: str) -> ArmSetting:
        return ArmSetting(service=place, kind=kind, name=name, words=f"{where}{words}")

    for name in sorted({*base.env, *other.env}):
        if base.env.get(name) != other.env.get(name):
            value = other.env.get(name)
            yield made("variable", name, f"{name} unset" if value is None else f"{name}={value}")
    (head, flags), (own_head, own_flags) = _flags(base), _flags(other)
    if head != own_head:
        yield made("command", "", shlex.join(own_head))
    for name in dict.fromkeys((*own_flags, *flags)):
        if flags.get(name) != own_flags.get(name):
            words = shlex.join(own_flags[name]) if name in own_flags else f"without {name}"
            yield made("flag", name, words)
    if any(getattr(base, each) != getattr(other, each) for each in _REST):
        named = [each for each in _REST if getattr(base, each) != getattr(other, each)]
        yield made("rest", "", ", ".join(named))


def _mixed(
    base: ServiceSpec, other: ServiceSpec, place: int, chosen: set[tuple[int | None, str, str]]
) -> ServiceSpec:
    def has(kind: str, name: str = "") -> bool:
        return (place, kind, name) in chosen

    env = dict(base.env)
    for name in {*base.env, *other.env}:
        if has("variable", name):
            env.pop(name, None)
            if name in other.env:
                env[name] = other.env[name]
    (head, flags), (own_head, own_flags) = _flags(base), _flags(other)
    words = list(own_head if has("command") else head)
    for name in dict.fromkeys((*flags, *own_flags)):
        words += (own_flags if has("flag", name) else flags).get(name, [])
    rest: dict[str, Any] = {}
    if has("rest"):
        rest = {each: getattr(other, each) for each in _REST}
    return replace(base, command=words, env=env, **rest)


def labels(pair: ArmPair, names: Sequence[int]) -> tuple[str, ...]:
    """The settings of these numbers in words."""
    return tuple(pair.settings[each].words for each in names)
