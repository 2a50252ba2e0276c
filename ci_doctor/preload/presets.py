# SPDX-License-Identifier: Apache-2.0
"""Pure. Preload rules that many jobs need, by name."""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.model.suggestion import did_you_mean
from ci_doctor.preload.preload_rule import EXAMPLE, FORM, PreloadRule, merge, parse_rule


class Preset(Struct, frozen=True, kw_only=True):
    """`rules` in `parse_rule` form; `why` names the race and the reason for the trigger."""

    rules: tuple[str, ...]
    why: str


PRESETS: Final = {
    "vllm": Preset(
        rules=("vllm.entrypoints.cli.main=transformers:GenerationConfig,PretrainedConfig",),
        why=(
            "vLLM imports transformers in a background thread while the main thread needs it too. "
            "The trigger is the module that starts the thread and not `vllm`, whose import sets "
            "variables that must be set before torch is imported."
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
