# SPDX-License-Identifier: Apache-2.0
import re
from typing import Any

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


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ('"accessToken": "abc"', '"accessToken": "[redacted]"'),
        ("clientSecret=abc", "clientSecret=[redacted]"),
        ("--apikey=abc", "--apikey=[redacted]"),
        ("-api-key abc", "-api-key [redacted]"),
        ("PGPASSWORD=abc psql", "PGPASSWORD=[redacted] psql"),
        ("LITELLM_MASTER_KEY=abc", "LITELLM_MASTER_KEY=[redacted]"),
        ("MYSQL_PWD=abc OLDPWD=/x PWD=/y", "MYSQL_PWD=[redacted] OLDPWD=/x PWD=/y"),
        ("HF_TOKEN: Zq8Xw3LrT5vB9nKp", "HF_TOKEN: [redacted]"),
        ("aws_secret_access_key = Zq8Xw3LrT5vB9nKp", "aws_secret_access_key = [redacted]"),
        (r"{\"api_key\": \"abc\", \"n\": 1}", r"{\"api_key\": \"[redacted]\", \"n\": 1}"),
        ("(b'x-api-key', b'abc')", "(b'x-api-key', b'[redacted]')"),
        ("Authorization: Bearer b", "Authorization: Bearer [redacted]"),
    ],
)
def test_a_secret_is_known_in_other_spellings_too(text: str, hidden: str) -> None:
    assert Redactor([]).text(text) == hidden
    assert Redactor([]).text(hidden) == hidden


@pytest.mark.parametrize(
    "text",
    [
        "api_key=None api_key='EMPTY' token=null",
        "bos_token='<s>', eos_token=\"<|im_end|>\"",
        "SyntaxError: unexpected token: '}'",
        '{"token": " the", "logprob": -0.1}',
        "token: the next word of the prompt",
        "stop_token_ids=[1, 2] tokenizer=auto",
        "password: see the documentation",
        "first token: 12345678901234",
        "mysecretary=abc",
    ],
)
def test_words_of_models_and_programs_stay_readable(text: str) -> None:
    assert Redactor([]).text(text) == text


def test_no_possessive_quantifier_stands_behind_a_group() -> None:
    # Before Python 3.11.5 it loses its place (github.com/python/cpython/issues/106052), and half of a
    # secret stays.
    compiled: list[re.Pattern[Any]] = [patterns.assignment(patterns.name_pattern())]
    compiled += [value for value in vars(patterns).values() if isinstance(value, re.Pattern)]
    assert len(compiled) > 5
    for each in compiled:
        text = each.pattern if isinstance(each.pattern, str) else each.pattern.decode()
        assert not re.search(r"\)(?:[?*+]|\{\d*,?\d*\})\+", text), text
