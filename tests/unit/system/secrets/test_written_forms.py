# SPDX-License-Identifier: Apache-2.0
import base64
import json
import shlex
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest

from ci_doctor.system.secrets.redaction import Redactor
from ci_doctor.system.secrets.written_forms import written_forms

SECRET = "hf_a/b+c'd\"e ö$"
PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvgIBADANBgkqhkiG9w0BAQ\nabc=\n-----END PRIVATE KEY-----\n"
REDACTOR = Redactor([SECRET])


@pytest.mark.parametrize(
    "written",
    [
        lambda value: value,
        lambda value: quote(value, safe=""),
        quote,
        quote_plus,
        lambda value: json.dumps(value)[1:-1],
        lambda value: json.dumps(value, ensure_ascii=False)[1:-1],
        lambda value: repr(value)[1:-1],
        shlex.quote,
        lambda value: base64.b64encode(value.encode()).decode().rstrip("="),
        lambda value: base64.b64encode(f"u:{value}".encode()).decode(),
        lambda value: base64.urlsafe_b64encode(f"user:{value}".encode()).decode(),
    ],
)
def test_every_written_form_is_hidden(written: Callable[[str], str]) -> None:
    hidden = REDACTOR.text(f"before {written(SECRET)} after")
    assert "[redacted]" in hidden
    assert "hf_a" not in hidden
    assert hidden.startswith("before ")
    assert hidden.endswith(" after")
    for whole in (base64.b64encode(SECRET.encode()).decode(), quote(SECRET)):
        assert whole[4:-4] not in hidden


@pytest.mark.parametrize(
    "text",
    [PEM, PEM.replace("\n", "\r\n"), json.dumps({"key": PEM}), "log: MIIEvgIBADANBgkqhkiG9w0BAQ"],
)
def test_secret_of_several_lines_is_hidden_whole_and_line_by_line(text: str) -> None:
    assert "MIIEvg" not in Redactor([PEM]).text(text)


@pytest.mark.parametrize("value", ["", "short", "default", "  DISABLED ", "[redacted]"])
def test_a_short_or_common_value_has_no_form(value: str) -> None:
    assert list(written_forms(value)) == []


def test_forms_are_distinct_and_none_is_shorter_than_six_bytes() -> None:
    forms = list(written_forms(SECRET))
    assert len(forms) == len(set(forms))
    assert min(map(len, forms)) >= 6
