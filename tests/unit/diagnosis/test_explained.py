# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.diagnosis.diagnosis import load_rules
from ci_doctor.diagnosis.explained import recognise
from ci_doctor.diagnosis.log_rules import LogRule, Role, RuleSet
from ci_doctor.model.cause import FailureClass


def a_rule(id_: str, role: Role, literal: str, regex: str) -> LogRule:
    return LogRule(id=id_, role=role, class_=FailureClass.DISK, literals=(literal,), regex=regex)


RULES = RuleSet(
    (
        a_rule("weak/error", Role.ERROR, "rror", r"(?i)\berror\b"),
        a_rule("disk/full", Role.CAUSE, "No space left", r"(?P<what>\w+): No space left"),
        a_rule("quiet/warning", Role.NOISE, "ignored", r"\(ignored\)"),
        a_rule("step/end", Role.END, "exited with", r"exited with [1-9]"),
    )
)


def test_the_strongest_line_of_several_is_the_answer() -> None:
    text = "error: it broke\n  12:00 cp: No space left on device\nerror: again"

    recognised = recognise(text, RULES)

    assert recognised is not None
    assert (recognised.rule.id, recognised.fields) == ("disk/full", {"what": "cp"})


def test_the_prefixes_of_a_log_do_not_matter() -> None:
    line = "(Worker pid=7) ERROR 01-28 15:58:45 [cp.py:3] cp: No space left on device"

    recognised = recognise(f"\x1b[31m{line}\x1b[0m", RULES)

    assert recognised is not None
    assert recognised.message == "cp: No space left on device"


def test_noise_and_marks_of_steps_answer_nothing() -> None:
    assert recognise("error (ignored)", RULES) is None
    assert recognise("the command exited with 1", RULES) is None
    assert recognise("all is well", RULES) is None
    assert recognise("", RULES) is None


@pytest.mark.parametrize(
    ("text", "class_"),
    [
        ("No module named 'vllm'", FailureClass.MISSING_DEPENDENCY),
        ("split() got an unexpected keyword argument 'world_size'", FailureClass.API_DRIFT),
        ("got an unexpected keyword argument 'world_size'", FailureClass.API_DRIFT),
        ("illegal memory access was encountered", FailureClass.CUDA_ERROR),
    ],
)
def test_a_message_is_recognised_without_its_exception_s_name(
    text: str, class_: FailureClass
) -> None:
    recognised = recognise(text, load_rules())
    assert recognised is not None
    assert recognised.rule.class_ is class_
    assert recognised.message == text


def test_a_sentence_that_is_no_error_stays_unrecognised() -> None:
    assert recognise("the weather is fine today", load_rules()) is None
