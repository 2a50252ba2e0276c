# SPDX-License-Identifier: Apache-2.0
import os
import time
from collections.abc import Collection
from pathlib import Path

import pytest

from ci_doctor.diagnosis import log_rules
from ci_doctor.diagnosis.diagnosis import load_rules
from ci_doctor.diagnosis.explained import check_outcome, overlaps
from ci_doctor.diagnosis.log_rules import (
    BoundedRegex,
    LogRule,
    Role,
    RuleSet,
    check_rules,
    house_rules,
    parse_rules,
    repository_rules,
)
from ci_doctor.diagnosis.log_text import LONGEST_TEXT
from ci_doctor.errors import ConfigError
from ci_doctor.model.outcome import Outcome, Severity, Verdict

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


def problems_of(text: str, taken: Collection[str] = ()) -> list[tuple[str, str]]:
    return check_rules(parse_rules(text, "rules.toml"), is_house=False, taken=taken)


def texts(text: str) -> list[str]:
    try:
        return [problem for _, problem in problems_of(text)]
    except ConfigError as error:
        return [str(error)]


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


def test_a_rule_with_an_id_that_another_has_is_a_mistake() -> None:
    problem = ("mine/broken-thing", "another rule has this id: choose a different one")

    assert problems_of(toml() + toml()) == [problem, problem]
    assert problems_of(toml(), taken={"mine/broken-thing"}) == [problem]


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


def test_rules_in_a_pipe_into_which_nobody_writes_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    os.mkfifo(path)

    with pytest.raises(ConfigError, match="cannot be read: a pipe into which nobody writes"):
        repository_rules([path])


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
    path.write_text(toml(id='"gpu/out-of-memory"'))

    with pytest.raises(ConfigError, match=r"rules\.toml: gpu/out-of-memory: another rule has this"):
        load_rules((path,))


GOOD = toml(no_match='["a broken thing"]')


def problems(text: str, tmp_path: Path) -> list[tuple[str, int | None]]:
    """The findings about a file with `text`: summary and line."""
    path = tmp_path / "rules.toml"
    path.write_text(text)
    outcome = check_outcome(path)
    mistakes = [each for each in outcome.findings if each.severity is Severity.ERROR]
    expected = Verdict.FAILED if mistakes else Verdict.PASS
    assert outcome.verdict is expected
    return [(each.summary, each.evidence[0].line) for each in mistakes]


def test_a_mistake_is_named_with_the_line_of_its_rule(tmp_path: Path) -> None:
    second = toml(id='"mine/other"', no_match='["a broken thing 13"]')

    ((summary, line),) = problems(f"{GOOD}\n{second}", tmp_path)

    assert "no_match example" in summary
    assert (summary.partition(":")[0], line) == ("mine/other", 13)


def test_every_rule_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    first = toml(class_='"netwrok"', no_match="[]")
    second = GOOD.replace("[[rule]]\n", '[[rule]]\nseverity = "high"\n')

    found = problems(first + second, tmp_path)

    assert ["netwrok" in found[0][0], "severity" in found[1][0]] == [True, True]
    assert [line for _, line in found] == [2, 13]


@pytest.mark.parametrize("id_", ["python/traceback", "generic/last-output"])
def test_a_rule_of_ours_keeps_its_id(tmp_path: Path, id_: str) -> None:
    text = toml(id=f'"{id_}"')

    assert "another rule has this id" in problems(text, tmp_path)[0][0]


def test_a_rule_that_stands_twice_is_named(tmp_path: Path) -> None:
    found = problems(GOOD + GOOD, tmp_path)

    assert {line for _, line in found} == {12}
    assert all("another rule has this id" in summary for summary, _ in found)


@pytest.mark.parametrize("text", ["", "[rule]\nid = 1\n", "[[rules]]\nid = 'x/y'\n"])
def test_a_file_without_rules_fails(text: str, tmp_path: Path) -> None:
    assert problems(text, tmp_path)


def test_what_is_not_toml_is_named_with_its_line(tmp_path: Path) -> None:
    ((summary, line),) = problems(f"{GOOD}\n[[rule]\n", tmp_path)

    assert ("not TOML" in summary, line) == (True, 12)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.toml"):
        check_outcome(tmp_path / "gone.toml")


OVERLAPPING = """
[[rule]]
id = "team/widget"
role = "cause"
class = "configuration"
{extra}
literals = ["widget"]
regex = '^widget: '
explanation = "The widget is wrong."
remedy = "Mend the widget."
match = ["widget: CUDA out of memory. Tried to allocate 2.00 GiB"]
"""


def check(tmp_path: Path, extra: str) -> Outcome:
    path = tmp_path / "rules.toml"
    path.write_text(OVERLAPPING.format(extra=extra))
    return check_outcome(path)


def test_rules_that_match_an_example_are_named_and_those_that_count(tmp_path: Path) -> None:
    outcome = check(tmp_path, "weight = 50")

    assert outcome.verdict is Verdict.PASS
    assert any("gpu/out-of-memory" in str(each) for each in outcome.tables[0].rows)
    assert "gpu/out-of-memory matches it too and counts" in outcome.findings[0].summary


@pytest.mark.parametrize(
    "extra",
    [
        "weight = 100",
        'weight = 50\ninstead_of = ["gpu/out-of-memory"]',
        'weight = 50\nyields_to = {"gpu/out-of-memory" = "the memory says more than the widget"}',
    ],
)
def test_a_rule_that_has_decided_about_the_others_has_no_finding(
    tmp_path: Path, extra: str
) -> None:
    assert check(tmp_path, extra).findings == ()


RULES = house_rules()
FILES = sorted((Path(log_rules.__file__).parent / "rules").glob("*.toml"))
# CPU time for one line, by the issue; a slow machine has as long as any other.
MOST_S = 0.05


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_of_house_rules_has_no_mistake(file: Path) -> None:
    rules = parse_rules(file.read_text("utf-8"), file.name)

    assert check_rules(rules, is_house=True) == []


def test_every_house_rule_has_an_id_of_its_own() -> None:
    ids = [rule.id for rule in RULES]

    assert sorted(ids) == sorted(set(ids))


def hostile_lines(rule: LogRule) -> list[str]:
    """Lines on which a regex that backtracks takes long: repeats, alone and after an example."""
    lines = []
    starts = {"", rule.match[0], rule.match[0][: len(rule.match[0]) // 2]}
    for start in sorted(starts):
        for repeated in ("a", " ", ":", "/", "0", "a ", "a:", "a/", "a.", "1.1:", "[a] ", "(a) "):
            text = start + repeated * LONGEST_TEXT
            # The longest for each of the two engines.
            lines += [text[:400], text[:LONGEST_TEXT]]
    return lines


def slowest_s(regex: BoundedRegex, lines: list[str]) -> float:
    slowest = 0.0
    for line in lines:
        started = time.thread_time()
        regex.search(line)
        slowest = max(slowest, time.thread_time() - started)
    return slowest


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_no_line_takes_a_house_rule_long(rule: LogRule) -> None:
    regex = BoundedRegex(rule.regex, is_foreign=False)
    regex.search("")
    regex.search(" " * LONGEST_TEXT)
    lines = hostile_lines(rule)

    # Another process may have had the processor's caches: the better of two counts.
    assert slowest_s(regex, lines) < MOST_S or slowest_s(regex, lines) < MOST_S


def test_no_heavier_rule_of_another_class_takes_an_example() -> None:
    rules = RuleSet(RULES)
    taken = [
        (rule.id, other.id, example)
        for rule in RULES
        for example, other, counts in overlaps(rules, rule)
        if counts and other.id not in rule.yields_to
        if other.role is Role.NOISE or len({rule.class_, other.class_} - {None}) > 1
    ]

    assert taken == []


def test_rules_that_stand_aside_exist_and_say_why() -> None:
    ids = {rule.id for rule in RULES}

    for rule in RULES:
        assert {*rule.instead_of, *rule.yields_to} <= ids - {rule.id}, rule.id
        assert all(len(reason.split()) > 3 for reason in rule.yields_to.values()), rule.id
