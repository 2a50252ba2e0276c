# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.diagnosis.explained import explain_text
from ci_doctor.diagnosis.log_rules import LogRule, Role, RuleSet
from ci_doctor.diagnosis.log_text import BLOCK_BYTES
from ci_doctor.diagnosis.open_log import open_log
from ci_doctor.diagnosis.scan import Hit, Scan, named_lines, scan
from ci_doctor.model.facts.preparing import ExplainFacts
from tests.support.diagnoses import diagnosed


def rule(
    name: str, literal: str, regex: str, role: Role = Role.ERROR, next_line: str | None = None
) -> LogRule:
    return LogRule(id=name, role=role, literals=(literal,), regex=regex, next_line=next_line)


RULES = RuleSet(
    [
        rule("a/broken", "broken", r"^(?P<what>\w+) is broken"),
        rule("a/anywhere", "shattered", "shattered"),
        rule("go/test-begins", "=== RUN   ", "^=== RUN", Role.RUN_BEGIN),
    ]
)


def scanned(folder: Path, content: bytes) -> Scan:
    """What the rules hit in a log of this content."""
    path = folder / "log"
    path.write_bytes(content)
    with open_log(str(path)) as log:
        return scan(log, RULES)


def numbers(result: Scan) -> list[int]:
    return [hit.line.number for hit in result.hits]


def test_a_hit_has_its_line_and_its_fields(tmp_path: Path) -> None:
    line = b"2026-11-22T09:00:00Z \x1b[31mdisk is broken\x1b[0m\r\n"

    hits = scanned(tmp_path, b"fine\r\n" + line + b"it is not brok en\n").hits

    assert [(hit.line.number, hit.fields, hit.clean.message) for hit in hits] == [
        (2, {"what": "disk"}, "disk is broken")
    ]


def test_lines_are_numbered_right_over_many_blocks(tmp_path: Path) -> None:
    ordinary = b"x" * 99 + b"\n"
    count = 3 * BLOCK_BYTES // len(ordinary)
    content = ordinary * count + b"disk is broken\n" + ordinary * count + b"cpu is broken"

    assert numbers(scanned(tmp_path, content)) == [count + 1, 2 * count + 2]


def test_the_segment_of_a_progress_bar_with_the_hit_counts(tmp_path: Path) -> None:
    bar = b" 10%\r 20%\rdisk is broken\r 30%\r" * 50_000

    result = scanned(tmp_path, b"one\n" + bar + b"done\nlast\n")

    assert result.counts == {"a/broken": 50_000}
    assert set(numbers(result)) == {2}
    assert result.hits[0].line.content == b"disk is broken"


@pytest.mark.parametrize("position", [100, 5_000, 100_000, BLOCK_BYTES - 3, BLOCK_BYTES + 9_000])
def test_a_hit_deep_in_a_long_line_is_shown_with_what_is_around_it(
    position: int, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    before = b"y" * (position - 1) + b" "
    path.write_bytes(b"first\n" + before + b"shattered" + b" z" * BLOCK_BYTES + b"\nnext\n")

    with open_log(str(path)) as log:
        (hit,) = scan(log, RULES).hits
        around = [line.number for line in (*log.before(hit.line, 5), *log.after(hit.line, 5))]

    assert (hit.line.number, b"shattered z z" in hit.line.content) == (2, True)
    assert len(hit.line.content) <= 2000
    assert around == [1, 2, 3]


def test_the_middle_of_a_long_line_is_no_start_of_a_line(tmp_path: Path) -> None:
    hits = scanned(tmp_path, b"disk is broken " * 10_000).hits

    assert [hit.line.offset for hit in hits] == [0]


def test_every_rule_keeps_its_first_and_last_hits_and_counts_all(tmp_path: Path) -> None:
    content = b"".join(b"disk is broken %d\n" % number for number in range(1, 5_001))

    result = scanned(tmp_path, content)

    assert result.counts == {"a/broken": 5_000}
    assert numbers(result) == [*range(1, 201), *range(4_801, 5_001)]


def test_a_repeated_error_keeps_the_time_of_each_line(tmp_path: Path) -> None:
    result = scanned(
        tmp_path,
        b"2026-11-22T09:00:00.0000000Z disk is broken\n"
        b"2026-11-22T09:00:01.5000000Z disk is broken\n"
        b"2026-11-22T09:00:02.5000000Z disk is fine\n"
        b"disk is broken\n",
    )

    assert result.counts == {"a/broken": 3}
    assert [(hit.line.number, hit.clean.time, hit.clean.message) for hit in result.hits] == [
        (1, "2026-11-22T09:00:00.0000000Z", "disk is broken"),
        (2, "2026-11-22T09:00:01.5000000Z", "disk is broken"),
        (4, None, "disk is broken"),
    ]


def test_marks_that_stand_in_ordinary_lines_count_near_other_hits_only(tmp_path: Path) -> None:
    far = b"=== RUN   TestFar\n" + b"x\n" * 50_000

    hits = scanned(tmp_path, far + b"=== RUN   TestNear\ndisk is broken\n").hits

    assert [hit.clean.message for hit in hits] == [
        "=== RUN   TestNear",
        "disk is broken",
    ]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("SyntaxError: invalid syntax", "python/syntax-error"),
        ("SyntaxError: Unexpected token '}'", "stack/node-uncaught"),
        ("TypeError: unsupported operand type(s) for +: 'int' and 'str'", "python/exception"),
        ("TypeError: x.map is not a function", "stack/node-uncaught"),
        ("java.lang.IllegalStateException: closed", "stack/java-exception"),
        ("System.NullReferenceException: Object reference not set", "stack/dotnet-exception"),
        ("ERROR in ./src/index.js", "build/webpack-error"),
        ("ERROR in src/app.ts:3:5 - error TS2304: Cannot find name 'x'.", "build/tsc-error"),
        ("  × Building wheel for x (pyproject.toml) did not run successfully.", "packages/pip-build-failed"),
        ("ERROR: /src/a.py Imports are incorrectly sorted and/or formatted.", "lint/formatter"),
        ("FAIL: reader-close.sh", "automake/failed-test"),
        ("BrokenPipeError: [Errno 32] Broken pipe", "python/pipe-closed"),
        ("lld-link: error: undefined symbol: ProfilerInit", "build/linker-error"),
        ("reader_test.cpp:12: error: Failure in TEST(reader, closes)", "unity/failed-test"),
        ("error: invalid target release: 11", "build/maven-problem"),
    ],
)  # fmt: skip
def test_a_message_is_explained_by_the_tool_that_writes_it(text: str, rule: str) -> None:
    outcome = explain_text(text, ())

    assert outcome is not None
    assert isinstance(outcome.facts, ExplainFacts)
    assert outcome.facts.rule == rule


@pytest.mark.parametrize("status", [1, 137])
@pytest.mark.parametrize(
    "mark",
    [
        "##[error]Process completed with exit code {}.",
        "Error: Process completed with exit code {}.",
        "##[error]The process '/usr/bin/bash' failed with exit code {}",
        "##[error]Bash exited with code '{}'.",
        "##[error]Step script exited with code {}.",
        "ERROR: Job failed: exit code {}",
        "ERROR: Job failed: command terminated with exit code {}",
        "🚨 Error: The command exited with status {}",
        "user command error: exit status {}",
        "Exited with code exit status {}",
        "ERROR: script returned exit code {}",
        "[taskcluster 2025-01-02 03:04:05.678Z] Unsuccessful task run with exit code: {} completed in 4 seconds",
        'The command "make test" exited with {}.',
        "Done. Your build exited with {}.",
    ],
)
def test_the_mark_at_the_end_of_a_job_is_no_cause(tmp_path: Path, mark: str, status: int) -> None:
    text = f"loading the widget\nthe widget is odd\n{mark.format(status)}\n"

    cause = diagnosed(tmp_path, text).cause

    assert cause is None or cause.place.line != 3


@pytest.mark.parametrize(
    "line", ["Killed", "sh: line 4:   28 Killed      ./server", "exit code 137"]
)
def test_a_kill_alone_is_no_proof_that_memory_ran_out(tmp_path: Path, line: str) -> None:
    cause = diagnosed(tmp_path, f"loading the widget\n{line}\n", 137).cause

    assert cause is None or cause.class_ is None


FIRST_ENTRY = r"^\s*1\) (?P<test>.+)"
HEADER = rule("runner/failures", "Failures:", "^Failures:$", Role.FAILURE, FIRST_ENTRY)
RULES_OF_HEADER_LINES = RuleSet([HEADER])


def named(folder: Path, *lines: str) -> tuple[Hit, ...]:
    path = folder / "log"
    path.write_text("\n".join(lines) + "\n")
    with open_log(str(path)) as log:
        return named_lines(log, scan(log, RULES_OF_HEADER_LINES).hits, RULES_OF_HEADER_LINES)


def test_a_header_names_the_first_entry_of_its_list(tmp_path: Path) -> None:
    (hit,) = named(tmp_path, "Failures:", "--------", "", "  1) closes twice", "  2) opens")
    assert hit.line.number == 4
    assert hit.fields == {"test": "closes twice"}


def test_a_header_without_its_list_or_at_the_end_of_a_log_is_no_hit(tmp_path: Path) -> None:
    assert named(tmp_path, "Failures:", "none at all", "  1) closes twice") == ()
    assert named(tmp_path, "Failures:", "") == ()
