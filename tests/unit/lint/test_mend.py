# SPDX-License-Identifier: Apache-2.0
"""Which edits are made together, what is shown of them, and that whole files are written with their mode and bytes."""

import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.lint.lint_rule import Edit, Place, Violation
from ci_doctor.lint.lint_run import LintFixFacts
from ci_doctor.lint.mend import RepairPlan, mended, plan_repair, planned, unified_diff
from ci_doctor.lint.source_files import SourceText
from tests.support.git_repository import make_repository
from tests.support.lint_runs import lint, reported, request
from tests.support.stand_in_readers import BAD_WORD


def violation(*edits: tuple[int, int, str], file: str = "x.sh") -> Violation:
    made = tuple(Edit(file=file, start=start, end=end, text=text) for start, end, text in edits)
    place = Place(file=file, line=1, end_line=1)
    return Violation(rule=BAD_WORD, place=place, summary="s", excerpt="", edits=made)


def plan(text: str, *violations: Violation, encoding: str = "utf-8") -> RepairPlan:
    source = SourceText(file="x.sh", text=text, encoding=encoding)
    return plan_repair(violations, {"x.sh": source}, lambda _file, new: new.count("("))


def after(text: str, *violations: Violation) -> str:
    planned = plan(text, *violations)
    return planned.files[0].text if planned.files else text


def test_edits_that_meet_wait_for_another_run_as_a_whole() -> None:
    first = violation((0, 3, "one"))
    meets = violation((2, 4, "no"), (8, 9, "no"))
    touches = violation((3, 5, "--"))

    planned = plan("abcdefghij", first, meets, touches)

    assert planned.files[0].text == "onedefghij"
    assert (planned.files[0].count, planned.overlapping) == (1, 2)


def test_the_same_edit_of_two_violations_is_made_once() -> None:
    assert after("ab", violation((1, 1, "x")), violation((1, 1, "x"))) == "axb"


def test_an_edit_outside_of_its_text_is_not_made() -> None:
    assert plan("ab", violation((1, 9, "x"))).overlapping == 1
    assert plan("ab", violation((0, 1, "x"), file="other.sh")).overlapping == 1


def test_a_file_that_could_be_read_less_well_is_refused() -> None:
    planned = plan("a\n", violation((0, 1, "(")))

    assert planned.files == ()
    assert planned.refused == {"x.sh": "the file could not be parsed after the change"}


def test_a_character_that_the_encoding_lacks_is_refused() -> None:
    planned = plan("a\n", violation((0, 1, "…")), encoding="latin-1")

    assert "latin-1" in planned.refused["x.sh"]


@st.composite
def texts_with_edits(draw: st.DrawFn) -> tuple[str, list[Violation]]:
    lines = draw(st.lists(st.sampled_from(["a\n", "bb\n", "\n", "c c\r\n"]), max_size=30))
    text = "".join(lines) + draw(st.sampled_from(["", "end"]))
    places = st.integers(0, len(text))
    new = st.sampled_from(["", "x", "y\n", "\n\n", "a\nb"])
    edits = draw(st.lists(st.tuples(places, places, new), max_size=6))
    return text, [violation((min(a, b), max(a, b), word)) for a, b, word in edits]


@given(texts_with_edits())
def test_git_makes_the_same_file_of_the_diff(case: tuple[str, list[Violation]]) -> None:
    text, violations = case
    planned = plan(text, *violations)

    assert applied(text, planned.diff) == (planned.files[0].text if planned.files else text)


@pytest.mark.parametrize(
    "name",
    ["a b.sh", "a\nb.sh", 'a"b.sh', "a\\b.sh", "\x1b[31m.sh", "café.sh", "caf\udce9.sh", "a\tb.sh"],
)
def test_git_applies_the_diff_of_a_file_of_any_name(name: str) -> None:
    diff = unified_diff(name, "abc\n", "xbc\n")

    assert applied("abc\n", diff, name) == "xbc\n"


def applied(text: str, diff: str, name: str = "x.sh") -> str:
    """`text`, the content of `name`, after `git apply`."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, name)
        file.write_bytes(text.encode())
        if diff:
            command = ["git", "apply", "--whitespace=nowarn", "-"]
            subprocess.run(command, cwd=directory, input=diff.encode(), check=True)
        return file.read_bytes().decode()


# What `--fix` writes: whole files with their mode and bytes, and none that has changed meanwhile.


def fix(directory: Path) -> tuple[LintFixFacts, str]:
    """The facts of `--fix`, and what was shown before anything was written."""
    shown: list[str] = []
    ran = lint(directory)
    facts = mended(ran, planned(ran, request(directory)), shown.append)
    return facts, "".join(shown)


def test_the_diff_is_shown_and_the_file_keeps_its_mode(tmp_path: Path) -> None:
    make_repository(tmp_path, {"run.sh": "echo evil\n"})
    (tmp_path / "run.sh").chmod(0o755)

    facts, shown = fix(tmp_path)

    assert (tmp_path / "run.sh").read_text() == "echo good\n"
    assert (tmp_path / "run.sh").stat().st_mode & 0o777 == 0o755
    assert "-echo evil\n+echo good\n" in shown
    assert facts.files == {"run.sh": 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == [".git", "run.sh"]
    assert reported(lint(tmp_path)) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\xef\xbb\xbfecho evil\r\n", b"\xef\xbb\xbfecho good\r\n"),
        (b"# caf\xe9\necho evil", b"# caf\xe9\necho good"),
    ],
)
def test_all_other_bytes_stay(before: bytes, after: bytes, tmp_path: Path) -> None:
    make_repository(tmp_path)
    (tmp_path / "run.sh").write_bytes(before)

    fix(tmp_path)

    assert (tmp_path / "run.sh").read_bytes() == after


def test_a_file_that_has_changed_since_it_was_read_stays(tmp_path: Path) -> None:
    make_repository(tmp_path, {"run.sh": "echo evil\n"})
    ran = lint(tmp_path)
    plan = planned(ran, request(tmp_path))
    (tmp_path / "run.sh").write_text("echo evil, and more\n")

    facts = mended(ran, plan, lambda _diff: None)

    assert (tmp_path / "run.sh").read_text() == "echo evil, and more\n"
    assert facts.refused == {"run.sh": "it has changed since it was read"}
    assert facts.files == {}


def test_a_script_in_a_pipeline_is_not_edited(tmp_path: Path) -> None:
    make_repository(tmp_path, {"p.yml": "steps:\n- command: echo evil\n"})

    facts, shown = fix(tmp_path)

    assert (facts.files, shown) == ({}, "")
