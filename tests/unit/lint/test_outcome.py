# SPDX-License-Identifier: Apache-2.0
"""From a run to the verdict and the findings: what fails, what passes, and what is no answer."""

from pathlib import Path

import pytest

from ci_doctor.errors import ConfigError
from ci_doctor.lint.lint_rule import Place, Violation, excerpt_of
from ci_doctor.lint.lint_run import LintFacts
from ci_doctor.lint.outcome import MOST_FINDINGS, findings_of, outcome_of
from ci_doctor.lint.selection import (
    BaselineEntry,
    LintBaseline,
    LintSettings,
    PathSettings,
    check_rule_names,
    decode_baseline,
    encode_baseline,
)
from ci_doctor.lint.source_files import started_programs
from ci_doctor.model.outcome import CaseOutcome, Outcome, RemedyKind, Severity, Verdict
from tests.support.git_repository import commit, git, make_repository
from tests.support.lint_runs import BAD, lint, request
from tests.support.stand_in_readers import BAD_WORD


def outcome(directory: Path, *names: str, since: str | None = None) -> Outcome:
    ran = lint(directory, *names, since=since)
    return outcome_of(ran, request(directory, *names, since=since))


@pytest.mark.parametrize(
    ("text", "verdict", "summary"),
    [
        (BAD, Verdict.FAILED, "1 error in 1 file; read 1 script"),
        ("true\n", Verdict.PASS, "nothing to report; read 1 script"),
        (
            None,
            Verdict.PASS,
            "1 warning in 1 file; read 2 scripts; 1 file not wholly readable",
        ),
    ],
)
def test_an_error_fails_and_a_warning_does_not(
    text: str | None, verdict: Verdict, summary: str, tmp_path: Path
) -> None:
    scripts = {"run.sh": text} if text else {"run.sh": "true\n", "half.sh": "if true\n"}
    make_repository(tmp_path, scripts)

    answer = outcome(tmp_path)

    assert (answer.verdict, answer.summary) == (verdict, summary)


@pytest.mark.parametrize(
    ("name", "content", "summary"),
    [
        ("notes.md", b"evil\n", "*.sh"),
        ("run.sh", b"\0", "run.sh: it holds a NUL byte"),
        ("half.sh", b"if true\n", "nothing could be read: half.sh: "),
    ],
    ids=["no file that lint reads", "no text", "no program"],
)
def test_a_tree_of_which_nothing_can_be_read_is_void(
    name: str, content: bytes, summary: str, tmp_path: Path
) -> None:
    make_repository(tmp_path)
    (tmp_path / name).write_bytes(content)

    answer = outcome(tmp_path)

    assert answer.verdict is Verdict.VOID
    assert summary in answer.summary


def test_files_that_the_settings_leave_out_are_not_judged(tmp_path: Path) -> None:
    make_repository(tmp_path, {"run.sh": BAD})
    settings = LintSettings(paths=(PathSettings(match=("*.sh",), ignore=("*",)),))

    answer = outcome_of(lint(tmp_path, settings=settings), request(tmp_path, settings=settings))

    assert answer.verdict is None
    assert answer.summary == "nothing was judged: [lint] leaves out 1 file, and there is no other"


def test_a_change_of_nothing_that_lint_reads_passes(tmp_path: Path) -> None:
    make_repository(tmp_path, {"run.sh": BAD})
    git(tmp_path, "switch", "--quiet", "-c", "work")
    commit(tmp_path, {"notes.md": "evil\n"})

    answer = outcome(tmp_path, since="main")

    assert (answer.verdict, answer.summary) == (
        Verdict.PASS,
        "no file that lint reads has changed",
    )


def test_an_unreadable_change_is_no_pass(tmp_path: Path) -> None:
    make_repository(tmp_path, {"run.sh": BAD})
    (tmp_path / "run.sh").write_bytes(b"\0")

    assert outcome(tmp_path, since="HEAD").verdict is Verdict.VOID


def test_facts_count_what_was_read_and_what_was_left_out(tmp_path: Path) -> None:
    files = {
        "run.sh": "echo evil # ci-doctor: ignore[shell/bad-word] meant\n",
        "p.yml": "steps:\n- command: a\n- command: b\n",
        "values.yaml": "a: 1\n",
        "ci/gate.py": "pass\n",
        "third_party/x.sh": "",
    }
    make_repository(tmp_path, files)
    (tmp_path / "latin.sh").write_bytes(b"echo \xe9\n")

    facts = outcome(tmp_path).facts

    assert isinstance(facts, LintFacts)
    assert facts.lint_files == {"scripts": 2, "pipelines": 1, "gates": 1, "other files": 1}
    assert (facts.embedded, facts.latin1, facts.silenced) == (2, 1, 1)
    assert facts.left_out["vendored"] == 1


def test_a_finding_has_its_line_its_related_places_and_a_remedy_to_paste(tmp_path: Path) -> None:
    make_repository(tmp_path, {"lib.sh": "echo evil\n", "run.sh": "source lib.sh\n"})

    first, second = outcome(tmp_path).findings

    assert (first.evidence[0].excerpt, first.remedy) == ("echo evil", "good")
    assert first.remedy_kind is RemedyKind.COMMAND
    assert [(each.file, each.line) for each in second.evidence] == [("run.sh", 1), ("lib.sh", 1)]


def test_of_too_many_findings_the_errors_stay_and_the_rest_is_counted(tmp_path: Path) -> None:
    words = "echo evil\n" * (MOST_FINDINGS + 7)
    make_repository(tmp_path, {"a.sh": words, "z.sh": "echo evil\n"})
    settings = LintSettings(severity={"shell/bad-word": Severity.WARNING})

    asked = request(tmp_path, settings=settings)
    answer = outcome_of(lint(tmp_path, settings=settings), asked)

    assert len(answer.findings) == MOST_FINDINGS
    assert isinstance(answer.facts, LintFacts)
    assert (answer.facts.warnings, answer.facts.unreported) == (MOST_FINDINGS + 8, 8)


def test_each_file_is_a_case_for_readers_of_tests(tmp_path: Path) -> None:
    make_repository(tmp_path, {"bad.sh": BAD, "good.sh": "true\n"})

    bad, good = outcome(tmp_path).cases

    assert (bad.name, bad.outcome) == ("bad.sh", CaseOutcome.FAILED)
    assert bad.message == "line 2: an evil word"
    assert good.outcome is CaseOutcome.PASSED


def test_a_file_that_no_rule_has_looked_at_has_not_passed(tmp_path: Path) -> None:
    make_repository(tmp_path, {"good.sh": "true\n", "half.sh": "if true\n"})
    (tmp_path / "nul.sh").write_bytes(b"\0")

    good, half, nul = outcome(tmp_path).cases

    assert good.outcome is CaseOutcome.PASSED
    assert (half.name, half.outcome) == ("half.sh", CaseOutcome.SKIPPED)
    assert (nul.name, nul.outcome) == ("nul.sh", CaseOutcome.SKIPPED)
    assert nul.message == "no rule could read it: it holds a NUL byte, as binary files do"


# What a finding of lint holds of a violation, whatever its line and its words are.

PLACE = Place(file="x.sh", line=1, end_line=1)
LONG = "x" * 1_000_000


def test_words_of_a_megabyte_do_not_reach_the_report() -> None:
    violation = Violation(
        rule=BAD_WORD,
        place=PLACE,
        summary=f"`{LONG}` is evil",
        excerpt=f"echo {LONG}",
        remedy=f"good {LONG}",
    )

    (finding,) = findings_of([violation])

    assert (finding.summary, finding.evidence[0].excerpt) == ("…", "echo …")
    # Half a command would be another command.
    assert finding.remedy is None


# How a line is cut: no part of a word stays that a redactor would know as a whole.


@pytest.mark.parametrize(
    ("line", "excerpt"),
    [
        ("  curl a  ", "curl a"),
        ("curl abcd", "curl abcd"),
        ("curl abcde", "curl …"),
        ("curl -s abc", "curl -s …"),
        ("curl abcd  e", "curl abcd …"),
        ("curl\tabcdef", "curl …"),
        ("abcdefghij", "…"),
    ],
)
def test_a_line_is_cut_between_two_words(line: str, excerpt: str) -> None:
    assert excerpt_of(line, 9) == excerpt


RULES = ("shell/bad-word", "gate/slow-gate")


@pytest.mark.parametrize(
    ("settings", "keys"),
    [
        (LintSettings(ignore=("shell/*", "shell/bad-wort")), ("ignore", 1)),
        (
            LintSettings(severity={"shell/bad-wort": Severity.NOTE}),
            ("severity", "shell/bad-wort"),
        ),
        (
            LintSettings(paths=(PathSettings(match=("*",), ignore=("shell/bad-wort",)),)),
            ("paths", 0, "ignore", 0),
        ),
    ],
)
def test_a_mistyped_rule_is_an_error_with_its_place_and_the_near_name(
    settings: LintSettings, keys: tuple[str | int, ...]
) -> None:
    with pytest.raises(ConfigError) as raised:
        check_rule_names(settings, lambda: RULES, repr)

    assert raised.value.message == f"{keys!r}: [lint]: no rule is called `shell/bad-wort`"
    assert raised.value.hint == "did you mean `shell/bad-word`?"


def test_a_name_that_is_like_no_rule_gets_no_list_of_all() -> None:
    with pytest.raises(ConfigError) as raised:
        check_rule_names(LintSettings(ignore=("shell/nope",)), lambda: RULES, repr)

    assert "gate/slow-gate" not in (raised.value.hint or "")


def test_names_and_patterns_of_rules_are_fine() -> None:
    settings = LintSettings(
        ignore=("shell/*",), paths=(PathSettings(match=("x/**",), ignore=("*", "gate/slow-gate")),)
    )

    check_rule_names(settings, lambda: RULES, repr)


# The baseline file: what it holds, and what is no baseline.


def test_a_baseline_has_a_line_for_each_entry_and_comes_back_as_it_was() -> None:
    entries = [
        BaselineEntry(rule="shell/x", file=f"{name}.sh", excerpt="00ff", count=2) for name in "abc"
    ]
    baseline = LintBaseline(entries=tuple(entries))

    content = encode_baseline(baseline)

    assert len(content.splitlines()) == 5
    assert decode_baseline(content, "b.json") == baseline
    assert decode_baseline(encode_baseline(LintBaseline()), "b.json") == LintBaseline()


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"<<<<<<< ours", b'{"version":2,"entries":[]}', b'{"x":1}']
)
def test_what_is_no_baseline_is_a_configuration_error(content: bytes) -> None:
    with pytest.raises(ConfigError, match=r"b\.json"):
        decode_baseline(content, "b.json")


@pytest.mark.parametrize(
    ("text", "programs"),
    [
        ("python3 a/b.py --x 1\ntrue\n", [("a", "b.py")]),
        ("python -u b.py \\\n  --x 1; true", [("b.py",)]),
        ("  - command: python3.12 ./b.py && true", [("b.py",)]),
        # Comments, modules, and another program.
        ("# python3 a.py", []),
        ("python3 -m a.b", []),
        ("ipython3 notes.txt", []),
    ],
)
def test_a_program_is_known_by_its_path(text: str, programs: list[tuple[str, ...]]) -> None:
    assert list(started_programs(text)) == programs
