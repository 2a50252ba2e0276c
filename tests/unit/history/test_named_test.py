from pathlib import Path

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.history.evidence import stored_text
from ci_doctor.history.one_test import named_test
from tests.support.histories import P, history, run

RUNS = [run([("test_reuse[8]", P), ("test_reuse[16]", P), ("test_100%", P)], at=1)]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("tests/test_a.py::test_reuse[8]", "test_reuse[8]"),
        ("tests.test_a::test_reuse[8]", "test_reuse[8]"),
        ("test_reuse[8]", "test_reuse[8]"),
        ("reuse[16", "test_reuse[16]"),
        ("100%", "test_100%"),
    ],
)
def test_a_test_is_found_by_its_node_id_its_name_or_a_part(
    tmp_path: Path, text: str, name: str
) -> None:
    with history(tmp_path / "h.sqlite", RUNS) as connection:
        assert named_test(connection, text).name == name


def test_a_part_of_several_names_names_them(tmp_path: Path) -> None:
    with (
        history(tmp_path / "h.sqlite", RUNS) as connection,
        pytest.raises(UsageError, match="one of several") as caught,
    ):
        named_test(connection, "reuse")

    assert caught.value.hint is not None
    assert "`tests.test_a::test_reuse[16]`, `tests.test_a::test_reuse[8]`" in caught.value.hint


def test_a_percent_sign_is_no_pattern(tmp_path: Path) -> None:
    with (
        history(tmp_path / "h.sqlite", RUNS) as connection,
        pytest.raises(UsageError, match="no test"),
    ):
        named_test(connection, "%%")


def test_a_very_long_name_is_found_by_its_whole_text(tmp_path: Path) -> None:
    name = "test_" + "x" * 5_000
    stored = run([(stored_text(name), P)], at=1)

    with history(tmp_path / "h.sqlite", [stored]) as connection:
        assert named_test(connection, f"tests/test_a.py::{name}").name == stored_text(name)
