# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.system.secrets import patterns
from ci_doctor.system.secrets.redaction import Redactor


@pytest.mark.parametrize("stem", patterns.STEMS)
@pytest.mark.parametrize("separator", ["_", "-"])
def test_a_value_beside_any_secret_name_is_hidden(stem: str, separator: str) -> None:
    name = f"MY_{stem}".replace("_", separator)
    assert Redactor([]).text(f"{name}=xyzzy-4711 x") == f"{name}=[redacted] x"


@pytest.mark.parametrize("header", patterns.HEADERS)
def test_a_value_in_any_credential_header_is_hidden(header: str) -> None:
    assert Redactor([]).text(f"X-{header.title()}: abc.def") == f"X-{header.title()}: [redacted]"


@pytest.mark.parametrize("stem", ["VOUCHER", "LICENCE_CODE"])
def test_a_stem_that_is_added_to_the_list_is_redacted(
    stem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"MY_{stem}=xyzzy-4711"
    assert Redactor([]).text(text) == text
    monkeypatch.setattr(patterns, "STEMS", (*patterns.STEMS, stem))
    assert Redactor([]).text(text) == f"MY_{stem}=[redacted]"
