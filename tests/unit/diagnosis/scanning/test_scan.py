# SPDX-License-Identifier: Apache-2.0
import functools
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from ci_doctor.diagnosis.log_rule import LogRule, Role
from ci_doctor.diagnosis.reading.log_text import BLOCK_BYTES
from ci_doctor.diagnosis.reading.open_log import open_log
from ci_doctor.diagnosis.rule_files import house_rules
from ci_doctor.diagnosis.rule_set import RuleSet
from ci_doctor.diagnosis.scanning.literal_search import Engine, fast_engine, quick_engine
from ci_doctor.diagnosis.scanning.scan import Scan, scan


def rule(name: str, literal: str, regex: str, role: Role = Role.ERROR) -> LogRule:
    return LogRule(id=name, role=role, literals=(literal,), regex=regex)


RULES = RuleSet(
    [
        rule("a/broken", "broken", r"^(?P<what>\w+) is broken"),
        rule("a/anywhere", "shattered", "shattered"),
        rule("go/test-begins", "=== RUN   ", "^=== RUN", Role.RUN_BEGIN),
    ]
)


def scanned(path: Path, rules: RuleSet = RULES) -> Scan:
    with open_log(str(path)) as log:
        return scan(log, rules)


def numbers(result: Scan) -> list[int]:
    return [hit.line.number for hit in result.hits]


def test_a_hit_has_its_line_and_its_fields(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(
        b"fine\r\n2026-11-22T09:00:00Z \x1b[31mdisk is broken\x1b[0m\r\nit is not brok en\n"
    )

    hits = scanned(path).hits

    assert [(hit.line.number, hit.fields, hit.clean.message) for hit in hits] == [
        (2, {"what": "disk"}, "disk is broken")
    ]


def test_lines_are_numbered_right_over_many_blocks(tmp_path: Path) -> None:
    path = tmp_path / "log"
    ordinary = b"x" * 99 + b"\n"
    count = 3 * BLOCK_BYTES // len(ordinary)
    path.write_bytes(ordinary * count + b"disk is broken\n" + ordinary * count + b"cpu is broken")

    assert numbers(scanned(path)) == [count + 1, 2 * count + 2]


def test_the_segment_of_a_progress_bar_with_the_hit_counts(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\n" + b" 10%\r 20%\rdisk is broken\r 30%\r" * 50_000 + b"done\nlast\n")

    result = scanned(path)

    assert result.counts == {0: 50_000}
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
    path = tmp_path / "log"
    path.write_bytes(b"disk is broken " * 10_000)

    result = scanned(path)

    assert [hit.line.offset for hit in result.hits] == [0]


def test_every_rule_keeps_its_first_and_last_hits_and_counts_all(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(f"disk is broken {number}\n" for number in range(1, 5_001)))

    result = scanned(path)

    assert result.counts == {0: 5_000}
    assert numbers(result) == [*range(1, 201), *range(4_801, 5_001)]


def test_a_repeated_error_keeps_the_time_of_each_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(
        "2026-11-22T09:00:00.0000000Z disk is broken\n"
        "2026-11-22T09:00:01.5000000Z disk is broken\n"
        "2026-11-22T09:00:02.5000000Z disk is fine\n"
        "disk is broken\n"
    )

    result = scanned(path)

    assert result.counts == {0: 3}
    assert [(hit.line.number, hit.clean.time, hit.clean.message) for hit in result.hits] == [
        (1, "2026-11-22T09:00:00.0000000Z", "disk is broken"),
        (2, "2026-11-22T09:00:01.5000000Z", "disk is broken"),
        (4, None, "disk is broken"),
    ]


def test_marks_that_stand_in_ordinary_lines_count_near_other_hits_only(tmp_path: Path) -> None:
    path = tmp_path / "log"
    far = "=== RUN   TestFar\n" + "x\n" * 50_000
    path.write_text(far + "=== RUN   TestNear\ndisk is broken\n")

    assert [hit.clean.message for hit in scanned(path).hits] == [
        "=== RUN   TestNear",
        "disk is broken",
    ]


HOUSE = RuleSet(house_rules())
ENGINES = {
    "fast": fast_engine,
    "quick": quick_engine,
}


def engine_of(name: str, literals: Sequence[bytes]) -> Engine:
    return _made(name, tuple(literals))


@functools.cache
def _made(name: str, literals: tuple[bytes, ...]) -> Engine:
    return ENGINES[name](literals)


def kinds_of_content() -> dict[str, bytes]:
    examples = "\n".join(example for rule in HOUSE.rules[::12] for example in rule.match).encode()
    return {
        "lines": examples,
        "one line": examples.replace(b"\n", b" "),
        "progress": examples.replace(b"\n", b"\r"),
        "windows": examples.replace(b"\n", b"\r\n"),
        "zeros": examples.replace(b" ", b"\0"),
        "noise": b"text\n" + os.urandom(2_000) + examples,
        "coloured": b"\x1b[31m" + examples.replace(b"\n", b"\x1b[0m\n\x1b[31m"),
    }


KINDS = kinds_of_content()


@pytest.mark.parametrize("kind", KINDS)
def test_all_engines_give_the_same_scan(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a log\n" * 2000 + KINDS[kind])
    scans = []
    for name in ENGINES:
        with open_log(str(path)) as log:
            scans.append(scan(log, HOUSE, functools.partial(engine_of, name)))

    assert scans[0].hits
    assert scans[1] == scans[0]
