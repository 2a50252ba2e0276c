# SPDX-License-Identifier: Apache-2.0
from collections.abc import Collection
from pathlib import Path

import pytest

from ci_doctor.diagnosis.diagnosis import load_rules
from ci_doctor.diagnosis.repository_rules import repository_rules
from ci_doctor.diagnosis.rule_checks import RuleProblem, check_rules
from ci_doctor.diagnosis.rule_files import parse_rules
from ci_doctor.errors import ConfigError

RULE = {
    "id": '"mine/broken-thing"',
    "role": '"cause"',
    "class": '"code-bug"',
    "literals": '["broken thing"]',
    "regex": "'broken thing (?P<name>[0-9]+)'",
    "explanation": '"A thing is broken."',
    "remedy": '"Repair it."',
    "match": '["a broken thing 12"]',
}


def toml(**changed: str | None) -> str:
    fields = {**RULE, **{name.rstrip("_"): value for name, value in changed.items()}}
    lines = [f"{name} = {value}" for name, value in fields.items() if value is not None]
    return "\n".join(["[[rule]]", *lines, ""])


def problems_of(
    text: str, *, is_house: bool = False, taken: Collection[str] = ()
) -> list[RuleProblem]:
    rules = parse_rules(text, "rules.toml")
    return check_rules(rules, "rules.toml", is_house=is_house, taken=taken)


def texts(text: str, *, is_house: bool = False) -> list[str]:
    try:
        return [str(problem) for problem in problems_of(text, is_house=is_house)]
    except ConfigError as error:
        return [str(error)]


def test_a_good_rule_has_no_problem() -> None:
    assert texts(toml()) == []


MISTAKES: dict[str, tuple[dict[str, str | None], str]] = {
    "id": ({"id": '"Mine"'}, "the id is not of the form family/what-happened"),
    "class-missing": ({"class_": None}, "no class: a rule with role cause needs one"),
    "class-unknown": ({"class_": '"bad-luck"'}, "Invalid enum value 'bad-luck'"),
    "role": ({"role": '"reason"'}, "Invalid enum value 'reason'"),
    "remedy": ({"remedy": None}, "no remedy"),
    "explanation": ({"explanation": None}, "no explanation"),
    "match": ({"match": None}, "no example in match"),
    "weight": ({"weight": "101"}, "weight 101: use 0 to 100"),
    "literals": ({"literals": "[]"}, "no literals"),
    "short": ({"literals": '["br"]'}, "literal 'br': shorter than 3 bytes"),
    "frequent": (
        {"literals": '["broken", "PASSED"]'},
        "literal 'PASSED': stands in ordinary lines",
    ),
    "nul": ({"literals": '["broken\\u0000"]'}, "a line holds no such character"),
    "two-lines": ({"literals": '["broken\\nthing"]'}, "a line holds no such character"),
    "not-in-example": ({"literals": '["shattered"]'}, "it holds none of the literals"),
    "no-match": ({"regex": "'broken thing$'"}, "the regex does not match it"),
    "counter-example": ({"no_match": '["broken thing 3"]'}, "the regex matches it"),
    "regex": ({"regex": "'broken thing ('"}, "missing ), unterminated subpattern"),
    "look-ahead": ({"regex": "'broken thing (?=[0-9])'"}, "RE2 does not take it"),
    "back-reference": ({"regex": "'(b)roken thing|\\1'"}, "RE2 does not take it"),
    "large": ({"regex": "'broken thing (?:x{1,30}y?){1,30}|broken thing'"}, "too large"),
    "placeholder": ({"next_command": '"ci-doctor x {nobody}"'}, "{nobody} is no named group"),
    "unknown-field": ({"severity": "3"}, "unknown field `severity`"),
    "toml": ({"id": "mine"}, "Invalid value"),
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_is_reported_with_its_rule_and_what_to_do(kind: str) -> None:
    changed, sentence = MISTAKES[kind]

    problems = texts(toml(**changed))

    assert any(sentence in problem for problem in problems), problems
    assert all(problem.startswith("rules.toml: ") for problem in problems)


def test_a_rule_with_an_id_that_another_has_is_a_mistake() -> None:
    sentence = "rules.toml: mine/broken-thing: another rule has this id: choose a different one"

    assert texts(toml() + toml()) == [sentence, sentence]
    assert [str(each) for each in problems_of(toml(), taken={"mine/broken-thing"})] == [sentence]


def test_a_repositorys_rules_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(toml(regex="'broken thing (?:x{1,30}y?){1,30}|broken thing'"))

    with pytest.raises(ConfigError, match=r"rules\.toml: mine/broken-thing: .*more than 50 ms"):
        repository_rules([path])


def test_a_repositorys_rules_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(toml())

    assert [rule.id for rule in repository_rules([path])] == ["mine/broken-thing"]
    with pytest.raises(ConfigError, match="cannot be read"):
        repository_rules([tmp_path / "missing.toml"])


def test_an_example_is_tried_by_the_engine_that_reads_the_logs(tmp_path: Path) -> None:
    # By `re` this takes longer than the universe has existed.
    example = "broken thing " + "a" * 60 + "!"
    path = tmp_path / "rules.toml"
    path.write_text(
        toml(
            regex="'broken thing (?:a+)+$|broken thing$'",
            match="['a broken thing']",
            no_match=f"['{example}']",
        )
    )

    assert [rule.id for rule in repository_rules([path])] == ["mine/broken-thing"]


def test_a_rule_with_the_id_of_one_of_ours_is_refused_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(toml().replace("mine/broken-thing", "gpu/out-of-memory"))

    with pytest.raises(ConfigError, match=r"rules\.toml: gpu/out-of-memory: another rule has this"):
        load_rules((path,))
