# SPDX-License-Identifier: Apache-2.0
"""Pure. Preload rules: which modules to import before a trigger, on the same thread."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.model.words import did_you_mean

FORM = "TRIGGER=MODULE[:ATTRIBUTE,ATTRIBUTE][;MODULE…]"
EXAMPLE = "vllm.entrypoints.cli.main=transformers:GenerationConfig,PretrainedConfig"

# Rules by name.
PRESETS: Final = {
    # vLLM imports transformers in a background thread while the main thread needs it too. The trigger
    # is the module that starts the thread and not `vllm`, whose import sets variables that must be set
    # before torch is imported. vllm-project/vllm#40331 added the thread and #40438 reverted it: it is in
    # nightlies from 0.19.2rc1.dev15 up to 0.19.2rc1.dev133, and not in the wheels of 0.19.1, 0.20.0 and 0.33.0.
    "vllm": EXAMPLE,
}

# The script, and the copy of it that multiprocessing runs in a child (spawn, forkserver).
_NEVER_IMPORTED = frozenset({"__main__", "__mp_main__"})


class Preload(Struct, frozen=True, kw_only=True):
    """Import `module` (dotted), then touch `attributes`, which resolves lazily loaded ones."""

    module: str
    attributes: tuple[str, ...] = ()


class PreloadRule(Struct, frozen=True, kw_only=True):
    """Before `trigger` (dotted) is loaded, do `preloads` in their order."""

    trigger: str
    preloads: tuple[Preload, ...]


def parse_rule(text: str) -> PreloadRule:
    """The rule written as `TRIGGER=MODULE[:ATTRIBUTE,ATTRIBUTE][;MODULE…]`, with spaces anywhere.

    Only dotted ASCII identifiers pass, so that a rule can be embedded in generated code. Raises
    UsageError.
    """
    trigger, equals, modules = text.partition("=")
    if not equals:
        raise _bad(text, "it has no `=` between trigger and module")
    trigger = _dotted(text, "trigger", trigger)
    if trigger in _NEVER_IMPORTED:
        raise _bad(
            text, f"`{trigger}` is a program's own code, which no import loads, so it cannot fire"
        )
    preloads = [_parse_preload(text, part) for part in modules.split(";")]
    for preload in preloads:
        # Importing a.b.c imports a and a.b first.
        if f"{preload.module}.".startswith(f"{trigger}."):
            raise _bad(
                text,
                f"importing `{preload.module}` loads `{trigger}`, so it cannot come before it",
            )
    return merge((), (PreloadRule(trigger=trigger, preloads=tuple(preloads)),))[0]


def rules_of(texts: Iterable[str]) -> tuple[PreloadRule, ...]:
    """The rules of `texts`, of which those without a `=` name presets, united by trigger.

    Raises UsageError for a rule that cannot be read and for a name without a preset.
    """
    rules = []
    for text in texts:
        rule = PRESETS.get(text.strip(), text)
        if "=" not in rule:
            presets = did_you_mean(text.strip(), PRESETS) or ""
            presets += "" if presets.endswith("?") else "."
            raise UsageError(
                f"preload rule {text!r}: there is no preset of that name, "
                "and it has no `=` between trigger and module",
                hint=f"{presets} A rule is written {FORM}, for example {EXAMPLE}",
            )
        rules.append(parse_rule(rule))
    return merge((), rules)


def format_rule(rule: PreloadRule) -> str:
    """The text that `parse_rule` reads as `rule`."""
    modules = []
    for preload in rule.preloads:
        attributes = f":{','.join(preload.attributes)}" if preload.attributes else ""
        modules.append(f"{preload.module}{attributes}")
    return f"{rule.trigger}={';'.join(modules)}"


def format_rules(rules: Iterable[PreloadRule]) -> tuple[str, ...]:
    """The text of each rule."""
    return tuple(map(format_rule, rules))


def merge(existing: Iterable[PreloadRule], new: Iterable[PreloadRule]) -> tuple[PreloadRule, ...]:
    """One rule per trigger, sorted; modules and attributes united, each in its first order.

    The order of modules is kept because it may be intended. Merging what exists changes nothing.
    """
    # Dictionaries without values are sets that keep their order.
    united: dict[str, dict[str, dict[str, None]]] = {}
    for rule in (*existing, *new):
        modules = united.setdefault(rule.trigger, {})
        for preload in rule.preloads:
            modules.setdefault(preload.module, {}).update(dict.fromkeys(preload.attributes))
    return tuple(
        PreloadRule(
            trigger=trigger,
            preloads=tuple(
                Preload(module=name, attributes=(*names,)) for name, names in modules.items()
            ),
        )
        for trigger, modules in sorted(united.items())
    )


def _parse_preload(text: str, part: str) -> Preload:
    module, colon, attributes = part.partition(":")
    names = attributes.split(",") if colon else []
    return Preload(
        module=_dotted(text, "module", module),
        attributes=tuple(_identifier(text, "attribute", name.strip()) for name in names),
    )


def _dotted(text: str, role: str, name: str) -> str:
    dotted = name.strip()
    for part in dotted.split("."):
        _identifier(text, role, part, whole=dotted)
    return dotted


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
