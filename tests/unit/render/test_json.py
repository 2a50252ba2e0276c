# SPDX-License-Identifier: Apache-2.0
"""What programs read: a fixed point, true to its schema, and clear about what it cannot read."""

import json as standard_json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.errors import UsageError
from ci_doctor.model.outcome import SCHEMA, Report
from ci_doctor.render import json
from tests.support.builders import a_report, sample_reports
from tests.unit.render.strategies import reports, whole

SHIPPED = Path(json.__file__).parent / "report.schema.json"
VALIDATOR = jsonschema.Draft202012Validator(standard_json.loads(SHIPPED.read_text()))


# One test for both, because to draw a report costs more than either.
@whole
@given(reports())
def test_any_report_fits_the_shipped_schema_and_read_back_is_written_as_the_same_bytes(
    report: Report,
) -> None:
    once = json.render(report)
    VALIDATOR.validate(standard_json.loads(once))
    assert json.render(json.parse(once)) == once
    assert json.parse(once.encode()) == json.parse(once)


def test_shipped_schema_is_itself_valid_and_insists_on_the_version() -> None:
    jsonschema.Draft202012Validator.check_schema(VALIDATOR.schema)
    raw = standard_json.loads(json.render(a_report()))
    assert not VALIDATOR.is_valid(raw | {"schema": "ci-doctor/report/1"})
    del raw["schema"]
    assert not VALIDATOR.is_valid(raw)


@pytest.mark.parametrize("name", sample_reports())
def test_a_report_read_back_is_equal(name: str) -> None:
    report = sample_reports()[name]
    assert json.parse(json.render(report)) == report


def test_facts_come_sorted_so_that_their_making_does_not_matter() -> None:
    assert json.render(a_report(facts={"b": 1, "a": 2})) == json.render(
        a_report(facts={"a": 2, "b": 1})
    )


def test_bytes_that_were_not_utf8_do_not_stop_a_report() -> None:
    assert "\ufffd.log" in json.render(a_report(summary="\udcff.log"))


def test_fields_of_a_later_version_are_passed_over() -> None:
    raw = standard_json.loads(json.render(a_report())) | {"invented_later": 1}
    assert json.parse(standard_json.dumps(raw)) == a_report()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("<html>", "not JSON"),
        (b"\xff{}", "not JSON"),
        ('"\ud800"', "not JSON"),
        ("[]", "not a report: it has no `schema`"),
        ("{}", "not a report: it has no `schema`"),
        ('{"schema": 1}', "not a report: it has no `schema`"),
        (
            '{"schema": "ci-doctor/report/9"}',
            "schema is 'ci-doctor/report/9'; this ci-doctor reads 'ci-doctor/report/2'",
        ),
        (f'{{"schema": "{SCHEMA}"}}', "missing required field `tool_version`"),
        (
            json.render(a_report()).replace('"pass"', '"splendid"'),
            "Invalid enum value 'splendid'.*verdict",
        ),
    ],
)
def test_what_is_no_report_is_a_usage_error_that_says_why(text: str | bytes, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        json.parse(text)
    assert caught.value.hint


@given(st.text() | st.binary())
def test_rubbish_is_never_anything_but_a_usage_error(text: str | bytes) -> None:
    with pytest.raises(UsageError):
        json.parse(text)
