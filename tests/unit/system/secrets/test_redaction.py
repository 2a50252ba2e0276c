# SPDX-License-Identifier: Apache-2.0
"""No secret gets out, in whatever form it is written; and what is no secret stays readable."""

import json
import shlex
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ci_doctor.model.outcome import (
    SCHEMA,
    Attempt,
    Case,
    CaseAttempt,
    CaseOutcome,
    Evidence,
    text_table,
)
from ci_doctor.render import json as report_json
from ci_doctor.system.secrets.redaction import Redactor
from ci_doctor.system.secrets.spans import COMMON
from tests.support.builders import a_finding, a_report
from tests.support.growth import assert_linear

SECRET = "hf_a/b+c'd\"e ö$"
REDACTOR = Redactor.from_environment({"HF_TOKEN": SECRET, "PATH": "/usr/bin:/bin"})


def test_buildkites_own_patterns_are_added_to_ours() -> None:
    redactor = Redactor.from_environment(
        {
            "BUILDKITE_REDACTED_VARS": "*_PIN, LICENSE?,*",
            "CARD_PIN": "123456",
            "LICENSE1": "abc-def",
            "HF_TOKEN": "hf_abc",
            "HOME": "/root",
        }
    )
    assert redactor.text("123456 abc-def hf_abc /root") == "[redacted] [redacted] [redacted] /root"
    assert redactor.text("OTHER_PIN=9") == "OTHER_PIN=[redacted]"


def test_variables_of_a_service_are_known_too() -> None:
    redactor = Redactor.from_environment({}, {"VLLM_API_KEY": "sk-service"}, {"OTHER": "sk-other"})
    assert redactor.text("sk-service sk-other") == "[redacted] sk-other"


def test_password_in_the_url_of_any_variable_is_hidden_on_its_own() -> None:
    redactor = Redactor.from_environment(
        {"PIP_INDEX_URL": "https://reader:s3cr3t-pw@pypi.internal/simple"}
    )
    assert redactor.text("login with s3cr3t-pw failed") == "login with [redacted] failed"


@pytest.mark.parametrize("value", ["true", "1", "", "default", "DISABLED", "redacted"])
def test_short_or_common_value_does_not_blot_out_the_text(value: str) -> None:
    redactor = Redactor.from_environment({"HF_TOKEN": value})
    text = "true, 1 default of 11 is DISABLED or redacted"
    assert redactor.text(text) == text


def test_longest_and_overlapping_secrets_leave_no_piece() -> None:
    redactor = Redactor(["abcdef", "abcdefghij", "hijklmno"])
    assert redactor.text("-abcdefghijklmno-abcdef-") == "-[redacted]-[redacted]-"


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("HF_TOKEN=abc serve", "HF_TOKEN=[redacted] serve"),
        ("TOKEN=1", "TOKEN=[redacted]"),
        ("export API_KEY='a b' X=1", "export API_KEY='[redacted]' X=1"),
        ("""PASSWORD='it'"'"'s' X=1""", "PASSWORD='[redacted]' X=1"),
        ('{"hf_token": "abc", "model": "m"}', '{"hf_token": "[redacted]", "model": "m"}'),
        ("{'HF_TOKEN': 'abc', 'A': 'b'}", "{'HF_TOKEN': '[redacted]', 'A': 'b'}"),
        ("['-e', 'HF_TOKEN=abc', 'x']", "['-e', 'HF_TOKEN=[redacted]', 'x']"),
        ("vllm serve --api-key sk-1 --port 8", "vllm serve --api-key [redacted] --port 8"),
        ("vllm serve --api-key=sk-1 --port 8", "vllm serve --api-key=[redacted] --port 8"),
        ("['--api-key', 'sk-1', '--port', '8']", "['--api-key', '[redacted]', '--port', '8']"),
        ("--hf-token --port 8", "--hf-token --port 8"),
        ("HF_TOKEN=$HF_TOKEN", "HF_TOKEN=$HF_TOKEN"),
        ('HF_TOKEN="${CI_TOKEN}"', 'HF_TOKEN="${CI_TOKEN}"'),
        ("HF_TOKEN= X=1", "HF_TOKEN= X=1"),
        ("if token == expected", "if token == expected"),
        ("HF_TOKEN is not set", "HF_TOKEN is not set"),
        ("max_tokens=16", "max_tokens=16"),
        ("GET /v1?token=abc", "GET /v1?token=[redacted]"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer [redacted]"),
        ("-H 'authorization: Basic dTpw'", "-H 'authorization: Basic [redacted]'"),
        ("{'Authorization': 'Bearer abc'}", "{'Authorization': 'Bearer [redacted]'}"),
        ('Authorization: Token token="abc"', 'Authorization: Token token="[redacted]"'),
        ("X-Api-Key: abc", "X-Api-Key: [redacted]"),
        ("https://user:p%40w@host/x", "https://user:[redacted]@host/x"),
        ("redis://:pw@host:6379/0", "redis://:[redacted]@host:6379/0"),
        ("https://ghp_abc@github.com/o/r", "https://[redacted]@github.com/o/r"),
        ("ssh://git@github.com/o/r", "ssh://git@github.com/o/r"),
        ("http://127.0.0.1:8000/a@b", "http://127.0.0.1:8000/a@b"),
    ],
)
def test_value_beside_a_telling_name_is_hidden_unknown_as_it_is(text: str, hidden: str) -> None:
    assert Redactor([]).text(text) == hidden
    assert Redactor([]).text(hidden) == hidden


def test_command_line_hides_the_word_after_a_secret_option() -> None:
    argv = ["vllm", "--api-key", "sk-1", "--hf-token", "--port", "8", "-e", "HF_TOKEN=x", SECRET]
    hidden = "vllm --api-key [redacted] --hf-token --port 8 -e HF_TOKEN=[redacted] [redacted]"
    assert REDACTOR.argv(argv) == tuple(hidden.split())


def test_report_keeps_its_shape_and_loses_the_secret_everywhere() -> None:
    report = a_report(
        argv=("ci-doctor", "--api-key", "sk-unknown", SECRET),
        summary=SECRET,
        reproduce=f"HF_TOKEN={shlex.quote(SECRET)} ci-doctor",
        findings=(
            a_finding(
                summary=SECRET,
                remedy=SECRET,
                evidence=(Evidence(file=SECRET, line=3, excerpt=SECRET),),
            ),
        ),
        tables=(text_table(title=SECRET, lines=(SECRET,)),),
        facts={
            SECRET: [SECRET, {"deep": SECRET, "n": 1}],
            "env": {"DB_PASSWORD": "unknown!"},
            "argv": ["--token", "unknown!"],
        },
        cases=(Case(group=SECRET, name=SECRET, outcome=CaseOutcome.FAILED, detail=SECRET),),
        attempts=(Attempt(name="a", outcome=SECRET, ok=True, duration_s=1, facts={"x": SECRET}),),
    )
    hidden = REDACTOR.report(report)
    text = report_json.render(hidden)
    assert "hf_a" not in text
    assert "unknown" not in text
    assert hidden.facts["[redacted]"][1]["n"] == 1
    assert hidden.findings[0].evidence[0].line == 3
    assert hidden.schema == SCHEMA
    assert report_json.parse(text) == hidden


def test_report_without_secrets_is_unchanged() -> None:
    assert REDACTOR.report(a_report()) == a_report()


def test_report_survives_a_secret_that_is_one_of_its_own_words() -> None:
    report = Redactor([SCHEMA, "regression", "passed", "warning"]).report(
        a_report(cases=(Case(group="g", name="n", outcome=CaseOutcome.PASSED),))
    )
    assert report_json.parse(report_json.render(report)).cases[0].outcome is CaseOutcome.PASSED


SECRETS = (
    st.text(st.characters(codec="utf-8"), min_size=6, max_size=40)
    .filter(lambda value: len(value.strip()) >= 6 and not set(value.lower()) & set("[redacted]"))
    .filter(lambda value: value.strip().lower() not in COMMON)
)


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow], deadline=None)
@given(secret=SECRETS, before=st.text(), after=st.text())
def test_no_known_secret_ever_gets_through(secret: str, before: str, after: str) -> None:
    redactor = Redactor([secret])
    for written in (secret, json.dumps(secret), quote(secret), shlex.quote(secret), repr(secret)):
        assert secret.strip() not in redactor.text(f"{before}{written}{after}")
    assert secret.strip() not in "".join(redactor.argv([before, secret, after]))


@settings(deadline=None)
@given(
    text=st.text(st.sampled_from("HF_TOKEN=--api-key: 'Authorization Bearer\"\\https://u:p@$\n"))
)
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = Redactor([]).text(text)
    assert Redactor([]).text(once) == once


@pytest.mark.parametrize(
    "text",
    [
        "A_TOKEN='" * 20_000,
        '"' * 200_000,
        "TOKEN_" * 40_000,
        "a" * 200_000,
        "https://a:" * 20_000,
        "Authorization: Bearer " * 10_000,
        "--api-key " * 20_000,
        "api_key \t" * 20_000,
    ],
    ids=lambda text: text[:12],
)
def test_hostile_text_takes_linear_time(text: str) -> None:
    assert_linear(lambda size: REDACTOR.text(text[:size]), len(text) // 4)


@pytest.mark.parametrize(
    "secret",
    [
        "hunter2-of-the-build",
        "ghp_" + "a1B2" * 9,
        "Authorization: Bearer aaaa",
        "DB_PASSWORD=x1",
        "https://user:word@host/",
        "hunter2-\x1b[1mof-the-build",
        "-----BEGIN RSA PRIVATE KEY-----\nAAAA",
    ],
)
@pytest.mark.parametrize("field", ["group", "name", "message", "detail", "attempts"])
def test_a_secret_in_one_of_many_cases_is_hidden_as_if_it_were_alone(
    secret: str, field: str
) -> None:
    redactor = Redactor(["hunter2-of-the-build"])
    plain = [
        Case(group="g", name=f"t{number}", outcome=CaseOutcome.PASSED) for number in range(250)
    ]
    value = (
        (CaseAttempt(outcome=CaseOutcome.FAILED, message=secret),)
        if field == "attempts"
        else secret
    )
    holding = replace(plain[0], **{field: value})

    cases = redactor.report(replace(a_report(), cases=(*plain, holding, *plain))).cases

    assert cases == (*plain, redactor.value(holding), *plain)
    assert cases[250] != holding
