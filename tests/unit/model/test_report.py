# SPDX-License-Identifier: Apache-2.0
import msgspec
import pytest

from ci_doctor.model.facts.setup_env import FileState, SetVariable
from ci_doctor.model.finding import Finding, Severity
from ci_doctor.model.outcome import SCHEMA, Report
from tests.support.builders import a_report as report


def test_a_report_says_its_schema_first() -> None:
    assert msgspec.json.encode(report()).startswith(b'{"schema":"ci-doctor/report/2"')


def test_a_report_of_another_schema_is_none_of_ours() -> None:
    other = msgspec.json.encode(report()).replace(SCHEMA.encode(), b"ci-doctor/report/1")
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(other, type=Report)


@pytest.mark.parametrize("value", [report(), SetVariable(name="A", value="1", why="b")])
def test_values_do_not_change(value: msgspec.Struct) -> None:
    with pytest.raises(AttributeError):
        setattr(value, value.__struct_fields__[0], "x")


def test_words_are_what_programs_read() -> None:
    finding = Finding(rule="a/b", severity=Severity.NOTE, summary="c")
    assert msgspec.to_builtins(finding)["severity"] == "note"
    assert [str(state) for state in FileState] == ["create", "replace", "unchanged", "remove"]
