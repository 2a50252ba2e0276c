# SPDX-License-Identifier: Apache-2.0
"""One file of CI, checked as a whole: what is said of it, and that nothing in it stops the reader."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_doctor.lint.pipelines.check import PipelineContext, PipelineReading, check_pipeline
from ci_doctor.lint.pipelines.pipeline_context import CorrectnessTimes

FILE = ".buildkite/pipeline.yml"
NOTHING = PipelineContext()


def check(text: str, context: PipelineContext = NOTHING, file: str = FILE) -> PipelineReading:
    return check_pipeline(file, text, context)


def ids(reading: PipelineReading) -> list[str]:
    return [violation.rule.id for violation in reading.violations]


def test_a_violation_has_the_line_and_what_stands_there() -> None:
    reading = check("steps:\n  - label: a\n    command: make\n    timeout_in_minute: 5\n")

    (violation,) = reading.violations
    assert (violation.place.file, violation.place.line) == (FILE, 4)
    assert violation.excerpt == "timeout_in_minute: 5"
    assert violation.remedy == "Write `timeout_in_minutes`."


def test_violations_come_in_the_order_of_the_lines() -> None:
    steps = "  - {command: make, needs: a}\n  - {command: make, concurrency: 1}\n"

    reading = check("steps:\n" + steps)

    assert [violation.place.line for violation in reading.violations] == [2, 3]


def test_an_edit_puts_quotes_around_a_version() -> None:
    text = "steps:\n  - command: make\n    env: {PYTHON_VERSION: 3.10}\n"

    (violation,) = check(text).violations

    (edit,) = violation.edits
    mended = text[: edit.start] + edit.text + text[edit.end :]
    assert mended.endswith('{PYTHON_VERSION: "3.10"}\n')
    assert check(mended).violations == ()


def test_a_broken_file_is_an_error_and_unread_from_there() -> None:
    reading = check("steps:\n  - command: make\n\t- x\n")

    assert ids(reading) == ["pipeline/unparsable-yaml"]
    assert [each.line for each in reading.unreadable] == [3]


def test_the_source_of_a_template_is_unread_and_no_error() -> None:
    reading = check("steps:\n{% for s in steps %}\n  - command: {{ s }}\n{% endfor %}\n")

    assert reading.violations == ()
    assert [each.line for each in reading.unreadable] == [2]
    assert "template" in reading.unreadable[0].reason


def test_a_limit_of_ours_is_said_and_no_error_of_the_file() -> None:
    reading = check("steps: " + 1000 * "[")

    assert reading.violations == ()
    assert "nested deeper" in reading.unreadable[0].reason


def test_a_key_in_another_pipeline_of_the_repository_is_no_unknown_dependency() -> None:
    text = (
        "steps:\n  - {key: image-build, command: make}\n  - {command: t, depends_on: image-buid}\n"
    )
    other = {".buildkite/b.yml": "steps:\n  - command: x\n    key: 'image-buid'\n"}

    assert ids(check(text)) == ["pipeline/unknown-dependency"]
    assert ids(check(text, PipelineContext(others=other))) == []


@pytest.mark.parametrize(
    ("command", "times", "reported"),
    [
        ("ci-doctor correctness", CorrectnessTimes(retries=3, budget=2400.0), True),
        ("ci-doctor correctness", CorrectnessTimes(retries=3, budget=1200.0), False),
        ("ci-doctor correctness", CorrectnessTimes(retries=3, start=900.0), True),
        ("ci-doctor correctness --retries 2", CorrectnessTimes(retries=3, start=900.0), False),
        ("ci-doctor correctness --retries 9", CorrectnessTimes(retries=1, start=900.0), True),
        ("ci-doctor correctness --budget 20m", CorrectnessTimes(retries=9, start=900.0), False),
        ("ci-doctor correctness", CorrectnessTimes(retries=3), False),
        ("ci-doctor correctness", None, False),
    ],
)
def test_our_own_retries_must_fit_into_the_step(
    command: str, times: CorrectnessTimes | None, *, reported: bool
) -> None:
    text = f"steps:\n  - command: {command}\n    timeout_in_minutes: 30\n"

    found = ids(check(text, PipelineContext(correctness=times)))

    assert found == (["pipeline/retries-exceed-timeout"] if reported else [])


def test_a_file_of_the_repository_is_a_good_artifact_and_its_own_action_needs_no_version() -> None:
    there = PipelineContext(matches=lambda _: True)
    step = "steps:\n  - {command: x > report/a.xml, artifact_paths: reports/a.xml}\n"
    job = "on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n    - uses: o/r/.github/actions/a@main\n"

    assert ids(check(step)) == ["pipeline/artifact-never-matches"]
    assert ids(check(step, there)) == []
    assert ids(check(job, file=".github/workflows/a.yml")) == ["pipeline/unpinned-plugin"]
    assert ids(check(job, there, file=".github/workflows/a.yml")) == []


def test_steps_without_a_mapping_around_them_are_steps() -> None:
    assert ids(check("- command: make\n  soft-fail: true\n- wait\n")) == ["pipeline/unknown-key"]


def test_steps_of_a_group_are_checked() -> None:
    text = "steps:\n  - group: g\n    steps:\n      - {command: make, artifact_path: x}\n"

    assert ids(check(text)) == ["pipeline/unknown-key"]


def test_a_step_behind_an_alias_is_reported_once() -> None:
    text = "x: &x {command: make, needs: a}\nsteps:\n  - *x\n  - {<<: *x}\n"

    assert ids(check(text)) == ["pipeline/unknown-key"]


@pytest.mark.nightly
def test_twenty_thousand_steps_are_read() -> None:
    reading = check("steps:\n" + 20_000 * "- {command: make, label: a}\n" + "- {needs: a}\n")

    assert ids(reading) == ["pipeline/unknown-key"]
    assert len(reading.scripts) == 20_000


PIECES = st.sampled_from(
    [
        "steps:\n", "jobs:\n", "  a:\n", "  - ", "command: ", "run: ", "if: ", "plugins: ", "retry: ",
        "uses: a/b@", "image: ", "key: ", "- ", ": ", "|\n", ">-\n", "&x ", "*x", "<<: *x\n", "!t ",
        "{", "}", "[", "]", "'", '"', "${{", "}}", "{{", "{%", "\t", "\r\n", "\n", " ", "for i in 1 2; do ",
        "timeout 9 x", "done", "$$", "=~ /", "artifact_paths: ", "XXX", "3.10", "\x00", "\ud800",
    ]
)  # fmt: skip


@settings(max_examples=150)
@given(
    st.lists(PIECES, max_size=25), st.sampled_from([FILE, ".github/workflows/a.yml", "action.yml"])
)
def test_nothing_in_a_file_raises(pieces: list[str], file: str) -> None:
    text = "".join(pieces)

    reading = check_pipeline(file, text, NOTHING)

    last = text.count("\n") + text.count("\r") + 1
    for violation in reading.violations:
        assert 1 <= violation.place.line <= violation.place.end_line <= last
    for script in reading.scripts:
        assert script.lines is not None
        assert len(script.lines) == script.text.count("\n") + 1


def test_an_action_of_many_steps_is_one_violation_with_all_its_places() -> None:
    job = "on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n" + "      - uses: org/a@main\n" * 3

    (violation,) = check(job, file=".github/workflows/a.yml").violations

    assert violation.summary.endswith("(at 3 places of this file)")
    assert [each.line for each in violation.related] == [7, 8]
