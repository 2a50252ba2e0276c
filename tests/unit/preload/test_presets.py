# SPDX-License-Identifier: Apache-2.0
"""Rules by name."""

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.preload.preload_rule import format_rule, parse_rule
from ci_doctor.preload.presets import PRESETS, require_rules, rules_of


def test_preset_for_vllm_waits_for_the_module_that_starts_the_thread() -> None:
    (rule,) = rules_of(["vllm"])
    assert (
        format_rule(rule)
        == "vllm.entrypoints.cli.main=transformers:GenerationConfig,PretrainedConfig"
    )


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_can_be_read_and_says_why(name: str) -> None:
    assert rules_of([name])
    assert PRESETS[name].why.endswith(".")


def test_presets_and_rules_unite_by_trigger() -> None:
    more = "vllm.entrypoints.cli.main=transformers:AutoConfig"
    assert rules_of(["vllm", more]) == (
        parse_rule(
            "vllm.entrypoints.cli.main=transformers:GenerationConfig,PretrainedConfig,AutoConfig"
        ),
    )


def test_mistyped_name_gets_the_near_one() -> None:
    with pytest.raises(UsageError, match="no preset") as caught:
        rules_of(["vlm"])
    assert "did you mean `vllm`?" in (caught.value.hint or "")


def test_no_rule_at_all_names_the_presets() -> None:
    with pytest.raises(UsageError, match="no rule") as caught:
        require_rules([])
    assert "--preset vllm" in (caught.value.hint or "")
