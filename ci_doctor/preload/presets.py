# SPDX-License-Identifier: Apache-2.0
"""Pure. Preload rules that many jobs need, by name."""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.model.suggestion import did_you_mean
from ci_doctor.preload.preload_rule import EXAMPLE, FORM, PreloadRule, merge, parse_rule


class Preset(Struct, frozen=True, kw_only=True):
    """`rules` in `parse_rule` form; `why` names the race and the reason for the trigger.

    It holds for `versions` (PEP 440 specifiers) of `distribution`, by `source`.
    """

    rules: tuple[str, ...]
    why: str
    distribution: str
    versions: str
    source: str


PRESETS: Final = {
    "vllm": Preset(
        rules=("vllm.entrypoints.cli.main=transformers:GenerationConfig,PretrainedConfig",),
        why=(
            "vLLM imports transformers in a background thread while the main thread needs it too. "
            "The trigger is the module that starts the thread and not `vllm`, whose import sets "
            "variables that must be set before torch is imported."
        ),
        distribution="vllm",
        # Nightlies and builds from source alone: 0.19.1 and 0.20.0 to 0.33.0 start no thread there.
        versions=">=0.19.2rc1.dev15,<0.19.2rc1.dev134",
        source=(
            "vllm-project/vllm#40331 added the thread and #40438 reverted it on 2026-04-21; "
            "read in the wheels of 0.19.1, 0.20.0 and 0.33.0, where it is absent"
        ),
    )
}


def rules_of(texts: Iterable[str]) -> tuple[PreloadRule, ...]:
    """The rules of `texts`, united by trigger: a text with a `=`, or the name of a preset.

    Raises UsageError for a rule that cannot be read and for a name without a preset.
    """
    rules: list[PreloadRule] = []
    for text in texts:
        rules += _rules(text)
    return merge((), rules)


def split_texts(texts: Iterable[str]) -> tuple[tuple[PreloadRule, ...], tuple[str, ...]]:
    """The rules that are written out, and the names of presets. Raises as `rules_of`."""
    explicit: list[PreloadRule] = []
    names: dict[str, None] = {}
    for text in texts:
        rules = _rules(text)
        if "=" in text:
            explicit += rules
        else:
            names[text.strip()] = None
    return merge((), explicit), tuple(names)


def require_rules(texts: Sequence[str]) -> tuple[PreloadRule, ...]:
    """As `rules_of`; raises UsageError also if `texts` is empty."""
    if not texts:
        names = ", --preset ".join(sorted(PRESETS))
        raise UsageError(
            "no rule to preload by",
            hint=(
                f"name a preset (--preset {names}), write --rule {FORM}, "
                "or set `preload` in [setup-env]"
            ),
        )
    return rules_of(texts)


def _rules(text: str) -> tuple[PreloadRule, ...]:
    if "=" in text:
        return (parse_rule(text),)
    preset = PRESETS.get(text.strip())
    if preset is None:
        near = did_you_mean(text.strip(), PRESETS)
        raise UsageError(
            f"preload rule {text!r}: there is no preset of that name, "
            "and it has no `=` between trigger and module",
            hint=f"{near}; a rule is written {FORM}, for example {EXAMPLE}",
        )
    return tuple(parse_rule(rule) for rule in preset.rules)
