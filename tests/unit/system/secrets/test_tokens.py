# SPDX-License-Identifier: Apache-2.0
"""Credentials without a form of their own are hidden by what stands around them, in logs too."""

import base64
import json
import re
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import fields

from ci_doctor.model.outcome import SCHEMA, Report, Scalar, Table, row
from ci_doctor.render import RENDERERS
from ci_doctor.system.secrets import redaction as log_files
from ci_doctor.system.secrets.patterns import (
    CREDENTIALS,
    LONGEST_TOKEN,
    TokenFormat,
    token_formats,
    token_spans,
)
from ci_doctor.system.secrets.redaction import Redactor, redact_file
from tests.support.growth import assert_linear

REDACTOR = Redactor(())
RANDOM = "Zq8Xw3LrT5vB9nKp2MhC7yDf4Gs6Ja1E"
BASE64_KEY = base64.b64encode(b"-----BEGIN EC PRIVATE BASE64_KEY-----\nMHcCAQEE").decode()


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
        f"    client-key-data: {BASE64_KEY}{RANDOM}",
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


def test_each_pattern_holds_the_piece_that_leads_to_it() -> None:
    for piece, pattern in CREDENTIALS:
        flat = re.sub(rb"[\\?:()]", b"", pattern.pattern).lower()
        letters = re.sub(rb"[^\w-]", b"", piece).lower()
        assert letters in re.sub(rb"[^\w|-]", b"", flat)


FORMATS = {each.id: each for formats in token_formats().values() for each in formats}
A36 = "abcdefghijklmnopqrstuvwxyz0123456789"
# As their issuers write them; each is made up.
EXAMPLES = {
    "Hugging Face": "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh",
    "AWS": "AKIA" + "IOSFODNN7EXAMPLE",
    "AWS, temporary": "ASIA" + "IOSFODNN7EXAMPLE",
    "GitHub": "ghp_" + A36,
    "GitHub OAuth": "gho_" + A36,
    "GitHub fine-grained": "github_pat_11ABCDEFG0" + "a" * 12 + "_" + "Z9" * 29,
    "GitLab": "glpat-" + "x1Y2z3_4-5w6V7u8T9s0",
    "GitLab, routable": "glpat-" + "a1" * 14 + ".01.0z1abc2de",
    "OpenAI": "sk-" + "aB3" * 16,
    "OpenAI project": "sk-proj-" + "aB3_-x" * 12,
    "Anthropic": "sk-ant-api03-" + "aB3_-x" * 15 + "AA",
    "OpenRouter": "sk-or-v1-" + "0f" * 32,
    "Slack bot": "xoxb-" + "123456789012-1234567890123-" + "aB3dE6gH9jK2mN5pQ8sT1vW4",
    "Slack app": "xapp-1-A012BCDEFGH-1234567890123-" + "0f" * 32,
    "JWT": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + "dozjgNryP4J3jVmNHl0w5N_XgL0",
    "NVIDIA": "nvapi-" + "aB3_-x" * 11,
    "Buildkite": "bkua_" + "0f" * 20,
    "Buildkite job": "bkaj_" + A36,
    "Google": "AIza" + "SyA-1234567890abcdefghijklmnopqrstu",
    "npm": "npm_" + A36,
    "PyPI": "pypi-AgEIcHlwaS5vcmc" + "CJDAx" * 12,
    "DigitalOcean": "dop_v1_" + "0f" * 32,
    "Stripe": "sk_live_" + "aB3" * 8,
    "Replicate": "r8_" + A36,
    "Groq": "gsk_" + A36,
}
CONTEXTS = {
    "alone": "{}",
    "in a sentence": "the server refused {}.",
    "in quotes": "token '{}' is not valid",
    "after an equals sign": "x={}&y=1",
    "in a tag": "v1.0-{}",
    "in a path": "/srv/{}/x",
    "after an escaped line end": r"first\n{}\nlast",
    "after a URL escape": "https://host/?next%3D{}%26x",
    "coloured": "\x1b[31m{}\x1b[0m",
    "in JSON": '{{"a": "{}"}}',
    "in a shell's word": "curl -H '{}'",
    "after a bracket": "[{}]",
}


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_token_is_hidden_wherever_it_stands(kind: str, context: str) -> None:
    token = EXAMPLES[kind]
    text = CONTEXTS[context].format(token)

    hidden = REDACTOR.text(text)

    assert hidden == CONTEXTS[context].format("[redacted]")
    assert REDACTOR.text(hidden) == hidden


@pytest.mark.parametrize("kind", EXAMPLES)
def test_the_first_half_of_a_token_is_hidden_too(kind: str) -> None:
    token = EXAMPLES[kind]
    half = token[: max(20, len(token) * 2 // 3)]

    assert half not in REDACTOR.text(f"cut off at {half}")


@pytest.mark.parametrize(
    "text",
    [
        "commit 223781099f2c1b0e5d6a7b8c9d0e1f2a3b4c5d6e",
        "sha256:" + "0123456789abcdef" * 4,
        "4b1d" + "0123456789" * 4,
        "id 6f1ed002-ab0e-4dd5-9b0d-5c5b5a2ad3f1",
        "cmpl-0123456789abcdef0123456789abcdef-0",
        "task-force-of-estimators-abcdefghijklmnop",
        "branch sk-learn-with-some-more-words",
        "disk-0123456789abcdef0123",
        "hf_overrides hf_config hf_transfer_is_enabled",
        "npm_config_registry=https://x",
        "pypi-attestations 0.0.28 and pypi-simple",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
        "eyJhIjogMX0=",
        "SamplingParams(n=1, temperature=0.0, logprobs=5)",
        "SKIPPED SG.txt dp.pt.py AKIA is a prefix",
        "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUQ\n-----END CERTIFICATE-----",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHi user@host",
        "torch.nn.functional.scaled_dot_product_attention",
        "Qwen/Qwen2.5-14B-Instruct-GPTQ-Int4 meta-llama/Llama-3.1-8B-Instruct",
        "vllm-0.11.0+cu129.g2237810 cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64",
        "s3://bucket/key?versionId=3HL4kqtJvjVBH40Nrjfkd",
        "https://host/path?sig=short",
        "xai-",
        "api_org_name key-value v1.0-rc1",
    ],
)
def test_what_is_no_token_stays_readable(text: str) -> None:
    assert REDACTOR.text(text) == text


KEY_LINES = "\n".join(["MIIEowIBAAKCAQEA" + "aB3/x+" * 8] * 6)
KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{KEY_LINES}\nqQ==\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    "written",
    [
        KEY,
        KEY.replace("RSA ", ""),
        KEY.replace("RSA", "OPENSSH"),
        KEY.replace("RSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK"),
        KEY.replace("\n", "\r\n"),
        json.dumps(KEY)[1:-1],
        repr(KEY)[1:-1],
        quote(KEY),
        KEY.replace("KEY-----\n", "KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-1,0F\n\n", 1),
        KEY.replace("\n", " "),
    ],
)
def test_a_private_key_is_hidden_whole(written: str) -> None:
    lines = "\n".join(["[redacted]"] * len(written.split("\n")))

    assert REDACTOR.text(f"before {written} after") == f"before {lines} after"


@pytest.mark.parametrize(
    "address",
    [
        "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
        "https%3A%2F%2Fhooks.slack.com%2Fservices%2FT00000000%2FB00000000%2FXXXXXXXXXXXXXXXXXXXXXXXX",
        r"https:\/\/hooks.slack.com\/services\/T00000000\/B00000000\/XXXXXXXXXXXXXXXXXXXXXXXX",
        "https://discord.com/api/webhooks/123456789012345678/aB3_-xaB3_-xaB3_-xXXXXXXX",
        "https://b.s3.amazonaws.com/k?X-Amz-Signature=" + "XX0f" * 16 + "&x=1",
        "https://a.blob.core.windows.net/c?sv=1&sig=aXXXXXXXXXXXXXX%2BXXXXXXXXXXXX%3D",
    ],
)
def test_addresses_that_are_secrets_are_hidden(address: str) -> None:
    assert "XXX" not in REDACTOR.text(f"see {address} now")
    assert "[redacted]" in REDACTOR.text(f"see {address} now")


def _tokens_of(kind: TokenFormat) -> st.SearchStrategy[str]:
    made = st.from_regex(kind.pattern.encode(), fullmatch=True)
    return made.map(lambda raw: raw.decode("ascii", "ignore"))


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=4)
@given(data=st.data())
def test_whatever_fits_a_format_is_hidden(name: str, data: st.DataObject) -> None:
    token = data.draw(_tokens_of(FORMATS[name]))

    assert token not in REDACTOR.text(f"this is {token} here")


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_token_in_any_field_of_a_report_is_in_no_rendered_output(kind: str) -> None:
    token = EXAMPLES[kind]

    report = REDACTOR.report(filled(Report, token))

    for renderer in RENDERERS:
        assert token not in renderer.render(report), renderer.name


def filled(kind: Any, text: str) -> Any:  # noqa: C901, PLR0911 - a case for each kind of type
    """A value of `kind` with `text` in every string of it."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        values = {field.name: filled(field.type, text) for field in fields(kind)}
        if kind is Report:
            values |= {"schema": SCHEMA, "started_at": "2026-11-22T09:00:00.000Z"}
            values["facts"] = {"version": 1, f"a {text}": [{"b": f"c={text}"}, f"d {text}"]}
        return kind(**values)
    if hasattr(kind, "__members__"):
        return next(iter(kind))
    if kind in {int, float}:
        return 1
    if kind is bool:
        return True
    arguments = get_args(kind)
    origin = getattr(kind, "__origin__", None)
    if origin is tuple:
        return (filled(arguments[0], text), filled(arguments[0], text))
    if origin is dict:
        return {f"key {text}": f"value {text}"}
    if str in arguments or kind is str:
        return f"this is {text} here"
    for argument in arguments:
        if argument is not type(None):
            return filled(argument, text)
    raise AssertionError(kind)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_log_file_loses_a_token_over_the_border_of_its_chunks(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_files, "_CHUNK_BYTES", 97)
    log = tmp_path / "server.log"
    log.write_text("x " * 60 + EXAMPLES[kind] + "\n" + "y " * 60)

    assert log_files.redact_file(log, REDACTOR)

    assert log.read_text() == "x " * 60 + "[redacted]\n" + "y " * 60


def test_a_token_in_several_colours_is_hidden() -> None:
    token = EXAMPLES["GitHub"]

    hidden = REDACTOR.text(f"\x1b[1m{token[:12]}\x1b[0m\x1b[31m{token[12:]}\x1b[0m")

    assert token[12:] not in hidden
    assert token[:12] not in hidden


@pytest.mark.parametrize(
    ("label", "value", "shown"),
    [
        ("HF_TOKEN", "swordfish", "[redacted]"),
        ("$HF_TOKEN", "swordfish", "[redacted]"),
        ("--api-key", "swordfish", "[redacted]"),
        ("password:", "swordfish", "[redacted]"),
        ("VLLM_API_KEY of candidate", "swordfish", "[redacted]"),
        ("HF_TOKEN", "absent", "absent"),
        ("first token", "swordfish", "swordfish"),
        ("HF_HOME", "/models", "/models"),
        ("HF_TOKEN", 5, 5),
        ("HF_TOKEN", None, None),
    ],
)
def test_the_label_of_a_row_hides_the_texts_beside_it(
    label: str, value: Scalar, shown: Scalar
) -> None:
    changed = REDACTOR.value(Table(title="t", columns=("a", "b"), rows=(row(label, "x", value),)))

    assert changed.rows[0].cells[1].value == shown
    assert changed.rows[0].label == label


def test_a_value_beside_its_name_in_facts_is_hidden() -> None:
    changed = REDACTOR.value({"name": "HF_TOKEN", "value": "swordfish", "unset": False})

    assert changed == {"name": "HF_TOKEN", "value": "[redacted]", "unset": False}


def test_every_format_is_found_by_its_heads() -> None:
    for head, formats in token_formats().items():
        assert head.isalnum(), formats


@pytest.mark.parametrize(
    ("piece", "size"),
    [
        ("-----BEGIN PRIVATE KEY-----\n", 2000),
        ("hf_ sk- eyJ.", 8000),
        ("sk-", 20_000),
        ("eyJhbGciOi.", 8000),
        (KEY[:400], 200),
        ("A" * 30 + "\n", 4000),
        ("A" * 30 + "\n-----END PRIVATE KEY-----\n", 60),
        ("curl x ", 4000),
        ("Bearer aaaaaaaaaaaaaaaaaaaaaaaaaaaa ", 4000),
        ("authorization: a ", 4000),
        ("cookie: a=", 4000),
        ("://a:", 4000),
        ("machine a login ", 4000),
        ("LS0tLS1CRUdJTiBQUklWQVRFIE", 4000),
        ('"auth":"AAAAAAAAAAAA', 4000),
        ("AccountKey=", 4000),
        ("a8Q~" + "a" * 30, 4000),
    ],
)
def test_time_is_linear_in_the_length_of_a_hostile_text(piece: str, size: int) -> None:
    assert_linear(lambda count: list(token_spans((piece * count).encode())), size)


def test_no_token_is_longer_than_what_files_are_read_in() -> None:
    huge = "-----BEGIN PRIVATE KEY-----\n" + "A" * 64 + "\n"
    text = huge + ("B" * 64 + "\n") * 1000

    spans = list(token_spans(text.encode()))

    assert max(stop - start for start, stop in spans) <= LONGEST_TOKEN
