# SPDX-License-Identifier: Apache-2.0
"""Preload rules and presets: what is read, what is refused, how rules unite."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.errors import UsageError
from ci_doctor.preload.preload_rule import (
    Preload,
    PreloadRule,
    format_rule,
    merge,
    parse_rule,
    rules_of,
)

NAMES = st.sampled_from(["torch", "vllm.entrypoints.cli.main", "transformers", "a.b", "a"])
PRELOADS = st.builds(
    Preload, module=NAMES, attributes=st.lists(st.sampled_from("ABC"), unique=True).map(tuple)
)
RULES = st.lists(
    st.builds(PreloadRule, trigger=NAMES, preloads=st.lists(PRELOADS, min_size=1).map(tuple))
)


def test_rule_with_attributes_and_two_modules() -> None:
    rule = parse_rule(
        "vllm.entrypoints.cli.main=transformers:GenerationConfig,PretrainedConfig;numpy"
    )
    assert rule == PreloadRule(
        trigger="vllm.entrypoints.cli.main",
        preloads=(
            Preload(module="transformers", attributes=("GenerationConfig", "PretrainedConfig")),
            Preload(module="numpy"),
        ),
    )


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (" vllm = transformers : A , B ; numpy ", "vllm=transformers:A,B;numpy"),
        ("vllm=transformers:B;numpy;transformers:A,B", "vllm=transformers:B,A;numpy"),
        # A name that only begins like the trigger is none within it.
        ("vllm=vllm_flash_attn;vllm_flash_attn", "vllm=vllm_flash_attn"),
    ],
)
def test_spaces_do_not_count_and_one_module_named_twice_is_united(text: str, same: str) -> None:
    assert parse_rule(text) == parse_rule(same)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("vllm", "no `=`", id="no-equals"),
        pytest.param("", "no `=`", id="empty"),
        pytest.param("=transformers", "the trigger is empty", id="no-trigger"),
        pytest.param("vllm=", "the module is empty", id="no-module"),
        pytest.param("vllm=a;", "the module is empty", id="trailing-semicolon"),
        pytest.param("vllm=a:", "the attribute is empty", id="no-attribute"),
        pytest.param("vllm=a:B,", "the attribute is empty", id="trailing-comma"),
        pytest.param("vllm..cli=a", "the trigger 'vllm..cli' is not a Python name", id="two-dots"),
        pytest.param("vllm=a b", "the module 'a b' is not a Python name", id="space-inside"),
        pytest.param(
            "vllm=a:B.C", "the attribute 'B.C' is not a Python name", id="dotted-attribute"
        ),
        pytest.param("vllm=a=b", "the module 'a=b' is not a Python name", id="two-equals"),
        pytest.param("vllm=os');import x#", "is not a Python name", id="code"),
        pytest.param("vllm=a\nimport x", "is not a Python name", id="newline"),
        pytest.param("vllm=ａ", "is not a Python name", id="not-ascii"),
        pytest.param("vllm=vllm:LLM", "importing `vllm` loads `vllm`", id="itself"),
        pytest.param(
            "vllm=vllm.config", "importing `vllm.config` loads `vllm`", id="inside-itself"
        ),
    ],
)
def test_bad_rule_is_refused_with_the_reason_and_the_form(text: str, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_rule(text)
    assert reason in caught.value.message
    assert caught.value.hint is not None
    assert "TRIGGER=MODULE" in caught.value.hint


def test_merge_unites_attributes_of_the_same_module() -> None:
    merged = merge([parse_rule("b=m:X;n")], [parse_rule("b=m:Y,X"), parse_rule("a=m")])
    assert merged == (parse_rule("a=m"), parse_rule("b=m:X,Y;n"))


@given(RULES, RULES)
def test_merging_the_same_again_changes_nothing(
    existing: list[PreloadRule], new: list[PreloadRule]
) -> None:
    once = merge(existing, new)
    assert merge(once, new) == once
    assert merge((), once) == once


@given(PRELOADS, PRELOADS)
def test_written_rule_reads_as_the_same_rule(first: Preload, second: Preload) -> None:
    (rule,) = merge((), [PreloadRule(trigger="trigger", preloads=(first, second))])
    assert parse_rule(format_rule(rule)) == rule


@pytest.mark.parametrize("trigger", ["__main__", "__mp_main__"])
def test_what_no_import_loads_is_no_trigger(trigger: str) -> None:
    with pytest.raises(UsageError, match="cannot fire"):
        parse_rule(f"{trigger}=json")


def test_presets_and_rules_unite_by_trigger() -> None:
    preset = "vllm.entrypoints.cli.main=transformers:GenerationConfig,PretrainedConfig"
    more = "vllm.entrypoints.cli.main=transformers:AutoConfig"
    # It waits for the module that starts the thread.
    assert rules_of(["vllm"]) == (parse_rule(preset),)
    assert rules_of(["vllm", more]) == (parse_rule(f"{preset},AutoConfig"),)


def test_mistyped_name_gets_the_near_one() -> None:
    with pytest.raises(UsageError, match="no preset") as caught:
        rules_of(["vlm"])
    assert "did you mean `vllm`?" in (caught.value.hint or "")
