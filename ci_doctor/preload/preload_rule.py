# SPDX-License-Identifier: Apache-2.0
"""Preload rules: which modules to import, on the importing thread, just before a trigger module is loaded."""

from collections.abc import Iterable

from msgspec import Struct

from ci_doctor.errors import UsageError

FORM = "TRIGGER=MODULE[:ATTRIBUTE,ATTRIBUTE][;MODULE…]"
EXAMPLE = "vllm.entrypoints.cli.main=transformers:GenerationConfig,PretrainedConfig"


class Preload(Struct, frozen=True, kw_only=True):
    """Import `module` (dotted), then touch each of `attributes`, which resolves lazily loaded ones."""

    module: str
    attributes: tuple[str, ...] = ()


class PreloadRule(Struct, frozen=True, kw_only=True):
    """Before `trigger` (dotted) is loaded, do `preloads` in their order."""

    trigger: str
    preloads: tuple[Preload, ...]


def parse_rule(text: str) -> PreloadRule:
    """The rule that `text` writes as `TRIGGER=MODULE[:ATTRIBUTE,ATTRIBUTE][;MODULE…]`; spaces around names do not count.

    Only dotted ASCII identifiers pass, so that a rule can be embedded in generated code. Raises UsageError.
    """
    trigger, equals, modules = text.partition("=")
    if not equals:
        raise _bad(text, "it has no `=` between trigger and module")
    trigger = _dotted(text, "trigger", trigger)
    preloads = [_parse_preload(text, part) for part in modules.split(";")]
    for preload in preloads:
        if f"{preload.module}.".startswith(f"{trigger}."):
            raise _bad(
                text, f"importing `{preload.module}` loads `{trigger}`, so it cannot come before it"
            )
    return merge((), (PreloadRule(trigger=trigger, preloads=tuple(preloads)),))[0]


def format_rule(rule: PreloadRule) -> str:
    """The text that `parse_rule` reads as `rule`."""
    modules = (
        f"{preload.module}:{','.join(preload.attributes)}".rstrip(":") for preload in rule.preloads
    )
    return f"{rule.trigger}={';'.join(modules)}"


def merge(existing: Iterable[PreloadRule], new: Iterable[PreloadRule]) -> tuple[PreloadRule, ...]:
    """One rule per trigger, sorted by trigger; modules and attributes are united, each in the order first seen.

    The order of modules is kept because it may be meant. Merging what is there already changes nothing.
    """
    united: dict[str, dict[str, dict[str, None]]] = {}
    for rule in (*existing, *new):
        modules = united.setdefault(rule.trigger, {})
        for preload in rule.preloads:
            modules.setdefault(preload.module, {}).update(dict.fromkeys(preload.attributes))
    return tuple(
        PreloadRule(
            trigger=trigger,
            preloads=tuple(
                Preload(module=module, attributes=tuple(names))
                for module, names in united[trigger].items()
            ),
        )
        for trigger in sorted(united)
    )


def _parse_preload(text: str, part: str) -> Preload:
    module, colon, attributes = part.partition(":")
    names = attributes.split(",") if colon else []
    return Preload(
        module=_dotted(text, "module", module),
        attributes=tuple(_identifier(text, "attribute", name.strip()) for name in names),
    )


def _dotted(text: str, role: str, name: str) -> str:
    for part in name.strip().split("."):
        _identifier(text, role, part, whole=name.strip())
    return name.strip()


def _identifier(text: str, role: str, name: str, *, whole: str | None = None) -> str:
    shown = name if whole is None else whole
    if not shown:
        raise _bad(text, f"the {role} is empty")
    if not (name.isascii() and name.isidentifier()):
        raise _bad(text, f"the {role} {shown!r} is not a Python name")
    return name


def _bad(text: str, reason: str) -> UsageError:
    return UsageError(
        f"preload rule {text!r}: {reason}", hint=f"write {FORM}, for example {EXAMPLE}"
    )
