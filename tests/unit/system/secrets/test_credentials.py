# SPDX-License-Identifier: Apache-2.0
"""Credentials without a form of their own are hidden by what stands around them, in logs too."""

import base64
import re
from pathlib import Path

import pytest

from ci_doctor.system.secrets.credentials import CREDENTIALS
from ci_doctor.system.secrets.log_files import redact_file
from ci_doctor.system.secrets.redaction import Redactor
from ci_doctor.system.secrets.tokens import token_spans
from tests.support.growth import assert_linear

REDACTOR = Redactor(())
RANDOM = "Zq8Xw3LrT5vB9nKp2MhC7yDf4Gs6Ja1E"
KEY = base64.b64encode(b"-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE").decode()


@pytest.mark.parametrize(
    "line",
    [
        f"rejected Bearer {RANDOM}",
        f"authorization: bearer {RANDOM}",
        f"('authorization', 'Bearer {RANDOM}')",
        f"(b'authorization', b'Bearer {RANDOM}')",
        f'["Authorization", "Basic {RANDOM}=="]',
        f'{{\\"Authorization\\": \\"Basic {RANDOM}==\\"}}',
        f"AUTHORIZATION: Token {RANDOM}",
        f"Cookie: session={RANDOM}; theme=dark",
        f"Set-Cookie: sid={RANDOM}; HttpOnly",
        f"{{'cookie': 'session={RANDOM}'}}",
        f"(b'cookie', b'session={RANDOM}')",
        f"fatal: cannot read https://ci:{RANDOM}@git.internal/o/r.git/",
        f"redis://:{RANDOM}@10.0.0.1:6379/0",
        f"AccountName=x;AccountKey={RANDOM * 2}==;EndpointSuffix=core.windows.net",
        f"Endpoint=sb://x;SharedAccessKeyName=Root;SharedAccessKey={RANDOM}=",
        f"secret abc8Q~{RANDOM}.k_ expired",
        f'{{"auths":{{"ghcr.io":{{"auth":"{RANDOM}=="}}}}}}',
        f"+ curl -sS -u ci:{RANDOM} https://host/x",
        f"+ curl https://host/x --user 'ci:{RANDOM}'",
        f"machine host login ci password {RANDOM}",
        f"    client-key-data: {KEY}{RANDOM}",
    ],
)
def test_a_credential_is_hidden_in_reports_and_in_logs(line: str, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(f"{line}\n")

    assert RANDOM not in REDACTOR.text(line)
    assert REDACTOR.text(REDACTOR.text(line)) == REDACTOR.text(line)
    assert redact_file(log, REDACTOR)
    assert RANDOM not in log.read_text()


@pytest.mark.parametrize(
    "line",
    [
        "Bearer token required, none was sent with this request",
        "Authorization is required: see the documentation",
        "cookie: none",
        "http://127.0.0.1:8000/v1 and user@host",
        "Key=value AccountKey=short",
        "curl -u $USER:$TOKEN https://host",
        "docker run --user 1000:1000 image",
        "the machine must login with a password of its own",
        "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t",
        '"auth": "basic"',
    ],
)
def test_what_holds_no_credential_stays_readable(line: str) -> None:
    assert list(token_spans(f"{line} and more".encode())) == []


@pytest.mark.parametrize(
    "piece",
    [
        "curl x ",
        "Bearer aaaaaaaaaaaaaaaaaaaaaaaaaaaa ",
        "authorization: a ",
        "cookie: a=",
        "://a:",
        "machine a login ",
        "LS0tLS1CRUdJTiBQUklWQVRFIE",
        '"auth":"AAAAAAAAAAAA',
        "AccountKey=",
        "a8Q~" + "a" * 30,
    ],
)
def test_time_is_linear_in_the_length_of_a_hostile_log(piece: str) -> None:
    assert_linear(lambda count: list(token_spans((piece * count).encode())), 4000)


def test_each_pattern_holds_the_piece_that_leads_to_it() -> None:
    for piece, pattern in CREDENTIALS:
        flat = re.sub(rb"[\\?:()]", b"", pattern.pattern).lower()
        letters = re.sub(rb"[^\w-]", b"", piece).lower()
        assert letters in re.sub(rb"[^\w|-]", b"", flat)
