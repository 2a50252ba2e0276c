# SPDX-License-Identifier: Apache-2.0
import base64
import json
import shlex
import textwrap
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest

from ci_doctor.system.secrets.redaction import Redactor
from ci_doctor.system.secrets.spans import written_forms

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


def test_forms_are_distinct_and_none_is_shorter_than_six_bytes() -> None:
    forms = list(written_forms(SECRET))
    assert len(forms) == len(set(forms))
    assert min(map(len, forms)) >= 6


VALUE = "Zq8Xw3LrT5vB9nKpHd7Jm2Gs4Fc6Yt1Wb0Qe"
ACCOUNT = json.dumps(
    {"type": "service_account", "private_key_id": VALUE, "client_email": "a@b.c"}, indent=2
)


def pieces(value: str) -> set[str]:
    return {value[i : i + 8] for i in range(len(value) - 7)}


@pytest.mark.parametrize("width", [9, 16, 20, 30])
@pytest.mark.parametrize("form", ["{}", "[rank0]: {}", "    '{}'", "2026-11-22T09:00:00Z {}"])
def test_a_value_that_was_wrapped_is_hidden(width: int, form: str) -> None:
    redactor = Redactor.from_environment({"HF_TOKEN": VALUE})
    wrapped = [form.format(line) for line in textwrap.wrap(VALUE, width)]

    hidden = "\n".join(redactor.value(("INFO loading", *wrapped, "INFO done")))

    assert not [piece for piece in pieces(VALUE) if piece in hidden]
    assert hidden.startswith("INFO loading\n")
    assert hidden.endswith("\nINFO done")


@pytest.mark.parametrize("cut", range(8, len(VALUE), 5))
def test_a_value_that_was_cut_is_hidden(cut: int) -> None:
    redactor = Redactor.from_environment({"HF_TOKEN": VALUE})
    for piece in (VALUE[:cut], VALUE[-cut:]):
        if any(letter.isdigit() for letter in piece):
            assert redactor.text(f"got {piece}…") == "got [redacted]…"


def test_a_value_of_several_lines_is_hidden_in_base64_that_was_wrapped() -> None:
    redactor = Redactor.from_environment({"GCP_CREDENTIAL": ACCOUNT})
    wrapped = textwrap.wrap(base64.b64encode(ACCOUNT.encode()).decode(), 76)
    lines = tuple(f"ERROR {line}" for line in (*wrapped, "done"))

    assert VALUE not in redactor.text(ACCOUNT)
    hidden = "\n".join(redactor.value(lines))
    assert not [piece for piece in pieces(wrapped[1]) if piece in hidden]


@pytest.mark.parametrize(
    "name",
    [
        *("GCP_CREDENTIAL", "MY_CREDS", "DB_PASS", "DB_PWD"),
        *("AZURE_PAT", "STORAGE_SAS", "REDIS_AUTH"),
        *("OPENAI_KEY", "OPENAI_API_KEYS", "SLACK_WEBHOOK_URL", "SESSION_COOKIE", "CI_JWT"),
        *("HF_TOKEN", "hf_token", "TOKEN", "PASSWORD", "DB_PASSWORD", "MYSQL_PASSWD", "SECRET"),
        *("CLIENT_SECRET", "API_KEY", "VLLM_API_KEY", "AWS_SECRET_ACCESS_KEY", "DEPLOY_SSH_KEY"),
        *("TLS_PRIVATE_KEY", "AZURE_CONNECTION_STRING", "GOOGLE_APPLICATION_CREDENTIALS"),
        *("SENTRY_DSN", "Django_Secret_Key"),
        *("APP_SESSION", "HMAC_SIGNATURE", "VPN_PSK", "DEPLOY_KEY", "REFRESH_TOKENS"),
    ],
)
def test_the_name_of_a_variable_marks_its_value_as_secret(name: str) -> None:
    assert Redactor([]).text(f"{name}=S0me-Secret-4711 x") == f"{name}=[redacted] x"
    redactor = Redactor.from_environment({name: "S0me-Secret-4711"})
    assert redactor.text("got S0me-Secret-4711") == "got [redacted]"


@pytest.mark.parametrize(
    "text",
    [
        "TOKENIZERS_PARALLELISM=false MAX_TOKENS=4096 max_tokens: 512 num_tokens=100000000000",
        "KEYBOARD=pc105-2024-abcdef AUTHOR=somebody-4711-abcdef GIT_AUTHOR_NAME=a1b2c3d4e5f6g7",
        "cache_key=abc123def456ghi789 CACHE_KEY=v1-abc123def456ghi789 BUILDKITE_STEP_KEY=abc123def456g",
        "IMAGE_KEY=0123456789abcdef0123456789abcdef01234567 PWD=/y OLDPWD=/x INIT_PWD=/srv/a",
        "TLS_KEY=/etc/ssl/private/server1.pem REQUIRE_AUTH=basic USE_AUTH=true TEST_PASS=12",
        "SECRETARY=xyzzy-4711 KEY=xyzzy-4712 VLLM_USE_V1=xyzzy-4713 PATH=/xyzzy-4714",
        "tests_pass=12 XDG_SESSION=a1b2c3d4e5f6g7 primary_key=id",
    ],
)
def test_a_setting_whose_name_resembles_a_secrets_stays_readable(text: str) -> None:
    assert Redactor([]).text(text) == text
    environment = dict(word.split("=", 1) for word in text.split() if "=" in word)
    assert Redactor.from_environment(environment).text(text) == text


@pytest.mark.parametrize(
    "command",
    [
        "sshpass -p hunter22 ssh host",
        "docker login -u me -p hunter22 registry",
        "mysql -h db -phunter22 test",
        "redis-cli -h cache -a hunter22 ping",
        "curl -u me:hunter22 https://host",
        "psql --password hunter22 -h db",
    ],
)
def test_the_password_of_a_client_is_hidden_in_a_line_and_in_words(command: str) -> None:
    assert "hunter22" not in Redactor([]).text(command)
    assert "hunter22" not in " ".join(Redactor([]).value({"argv": command.split()})["argv"])


@pytest.mark.parametrize(
    "command", ["docker run -p 8000:8000 image", "redis-cli -e -p 16379 get key"]
)
def test_ports_stay(command: str) -> None:
    assert Redactor([]).text(command) == command
