# SPDX-License-Identifier: Apache-2.0
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ci_doctor.services.ready import (
    NoProbeError,
    ReadinessProbe,
    ReadySpec,
    Scheme,
    grpc_line,
    parse_ready,
    read_ready,
)

HERE = Path("/srv/app")


def parsed(ready: str | ReadySpec, **placeholders: str) -> ReadinessProbe:
    def fill(text: str) -> str:
        for name, value in placeholders.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    return parse_ready(ready, 5, directory=HERE, fill=fill)


@pytest.mark.parametrize(
    ("text", "probe"),
    [
        ("/health", ReadinessProbe(scheme=Scheme.HTTP, host="127.0.0.1", port=5, path="/health")),
        (
            "http://localhost/",
            ReadinessProbe(scheme=Scheme.HTTP, host="localhost", port=80, path="/"),
        ),
        ("http://[::1]:99", ReadinessProbe(scheme=Scheme.HTTP, host="::1", port=99, path="/")),
        ("http://h:1/a?b=c", ReadinessProbe(scheme=Scheme.HTTP, host="h", port=1, path="/a?b=c")),
        ("https://h/", ReadinessProbe(scheme=Scheme.HTTP, host="h", port=443, path="/", tls=True)),
        ("tcp://127.0.0.1:7", ReadinessProbe(scheme=Scheme.TCP, host="127.0.0.1", port=7)),
        (
            "log:Uvicorn running on .*:\\d+",
            ReadinessProbe(scheme=Scheme.LOG, pattern="Uvicorn running on .*:\\d+"),
        ),
        ("exec:./check.sh 'a b'", ReadinessProbe(scheme=Scheme.EXEC, words=("./check.sh", "a b"))),
        ("unix:run/x.sock", ReadinessProbe(scheme=Scheme.UNIX, socket=HERE / "run/x.sock")),
        ("unix:///run/x.sock", ReadinessProbe(scheme=Scheme.UNIX, socket=Path("/run/x.sock"))),
        (
            "http+unix://%2Frun%2Fx.sock/health?a=b",
            ReadinessProbe(scheme=Scheme.HTTP, socket=Path("/run/x.sock"), path="/health?a=b"),
        ),
        ("file:run/ready", ReadinessProbe(scheme=Scheme.FILE, file=HERE / "run/ready")),
        ("file:/run/ready", ReadinessProbe(scheme=Scheme.FILE, file=Path("/run/ready"))),
    ],
)
def test_a_text_is_a_probe(text: str, probe: ReadinessProbe) -> None:
    assert parsed(text) == probe


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/health", "http://127.0.0.1:5/health"),
        ("https://[::1]:9/x", "https://[::1]:9/x"),
        ("tcp://h:7", "tcp://h:7"),
        ("log:a b", "log /a b/"),
        ("exec:x 'a b'", "exec x 'a b'"),
        ("file:ready", "file /srv/app/ready"),
        ("http+unix://%2Frun%2Fx.sock/h", "http+unix://%2Frun%2Fx.sock/h"),
        ('{ http = "/v1", send = { n = 1 } }', "POST http://127.0.0.1:5/v1"),
        (
            '{ all = ["/h", { any = ["unix:/x", "file:y"] }] }',
            "all of http://127.0.0.1:5/h, any of unix:/x, file /srv/app/y",
        ),
    ],
)
def test_a_probe_is_told_as_a_person_would_write_it(text: str, shown: str) -> None:
    assert parsed(text).describe() == shown


def test_a_table_says_what_a_good_answer_is() -> None:
    spec = ReadySpec(
        http="/v1/models",
        status=[200, "3XX"],
        body="qwen",
        headers={"X-Tenant": "{arm}"},
        authorization="API_KEY",
        ready_for="2s",
        attempt_timeout=0.5,
    )
    probe = parsed(spec, arm="candidate")
    assert [probe.accepts(status) for status in (200, 204, 302)] == [True, False, True]
    assert probe.headers == (("X-Tenant", "candidate"),)
    assert (probe.ready_for_s, probe.attempt_s, probe.authorization) == (2.0, 0.5, "API_KEY")
    assert probe.body == "qwen"


def test_an_inline_table_is_the_same_as_a_table() -> None:
    text = """{ http = "/health", status = [200, 204], body = "qwen" }"""
    assert read_ready(text) == ReadySpec(http="/health", status=[200, 204], body="qwen")


def test_placeholders_are_filled_in_every_text() -> None:
    assert (
        parsed("http://{host}:{port}/{arm}", host="h", port="9", arm="b").describe()
        == "http://h:9/b"
    )
    assert parsed(ReadySpec(tcp="127.0.0.1:{port}"), port="9").port == 9
    assert parsed("log:listening on {port}", port="9").pattern == "listening on 9"
    assert parsed(ReadySpec(exec=["check", "{port}"]), port="9").words == ("check", "9")
    assert parsed("file:{arm}.ready", arm="b").file == HERE / "b.ready"
    spec = ReadySpec(http="/", body="arm {arm}")
    assert parsed(spec, arm="b").body == "arm b"


@pytest.mark.parametrize(
    ("ready", "told"),
    [
        ("", "is none of"),
        ("health", "is none of"),
        ("ftp://h/", "is none of"),
        ("http://", "is none of"),
        ("http://{host}/", "is none of"),
        ("tcp://h:1/x", "is none of"),
        ("tcp://127.0.0.1", "names no port"),
        ("http://x:port/", "names no port"),
        ("tcp://x:99999", "names no port"),
        ("/a b", "holds a space"),
        ("/a\r\nX: y", "holds a space"),
        ("log:", "empty regular expression"),
        ("log:(", "no regular expression"),
        ("exec:", "names no command"),
        ("exec:'a", "No closing quotation"),
        ("file:", "names no file"),
        ('{ htp = "/" }', "unknown key `htp`; did you mean `http`?"),
        ('{ http = "/"', "no inline TOML table"),
        ("{ http = 3 }", "$.http"),
        ("{}", "exactly one of http, tcp, unix, log, exec, file, all, any; it holds none"),
        ('{ all = ["/a"], any = ["/b"] }', "it holds all and any"),
        ("{ all = [] }", "`all` is empty"),
        ('{ any = [{ http = "/a", ready_for = 1 }] }', "write it beside `any`"),
        ('{ all = ["/a"], attempt_timeout = 1 }', "write it inside `all`"),
        ('{ http = "/", method = "P T" }', "is no HTTP method"),
        ('{ http = "/", methd = "POST" }', "did you mean `method`?"),
        ('{ tcp = "h:1", send = "x" }', "`send` is about HTTP"),
        ("unix:", "names no socket"),
        (f"unix:/{'x' * 107}", "may have 107 bytes"),
        ("http+unix:///run/x.sock/health", "write %2F for each /"),
        ('{ http = "/", log = "x" }', "it holds http and log"),
        ('{ log = "x", status = 200 }', "`status` is about HTTP"),
        ('{ tcp = "h:1", authorization = "KEY" }', "`authorization` is about HTTP"),
        ('{ http = "/", status = 42 }', "`status` holds 42"),
        ('{ http = "/", status = [] }', "`status` is empty"),
        ('{ http = "/", body = "[" }', "`body` = '[' is no regular expression"),
        ('{ http = "/", json = "a" }', "unknown key `json`"),
        ('{ http = "/", ready_for = "soon" }', "`ready_for`: not a duration"),
        ('{ http = "/", attempt_timeout = 0 }', "leaves an attempt no time"),
        ('{ http = "/", headers = { "a b" = "c" } }', "is no HTTP header"),
    ],
)
def test_what_cannot_be_asked_is_told_in_a_sentence(ready: str, told: str) -> None:
    with pytest.raises(ValueError, match="ready") as caught:
        parsed(ready)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("ready", "meant"),
    [
        ("healthz", "/healthz"),
        ("v1/models?x=1", "/v1/models?x=1"),
        ("localhost:8000", "tcp://localhost:8000"),
        (":8000/health", "http://127.0.0.1:8000/health"),
        ("htpp://h/", "http://h/"),
        ("https//h/x", "https://h/x"),
        ("tpc://127.0.0.1:80", "tcp://127.0.0.1:80"),
        ("exec ./check.sh", "exec:./check.sh"),
        ("cmd:./check.sh", "exec:./check.sh"),
        ("curl -f http://h/", "exec:curl -f http://h/"),
        ("regex:Ready", "log:Ready"),
        ("socket:/run/x", "unix:/run/x"),
    ],
)
def test_a_mistyped_probe_is_answered_with_the_one_that_is_like_it(ready: str, meant: str) -> None:
    with pytest.raises(NoProbeError) as caught:
        parsed(ready)
    assert caught.value.hint == f'did you mean "{meant}"?'


@pytest.mark.parametrize("ready", ["", "ftp://h/", "redis://h:1", "127.0.0.1", "8000", "file"])
def test_what_is_like_no_probe_gets_no_suggestion(ready: str) -> None:
    with pytest.raises(NoProbeError) as caught:
        parsed(ready)
    assert caught.value.hint is None


def test_grpc_gets_the_line_that_asks_by_a_command() -> None:
    with pytest.raises(NoProbeError) as caught:
        parsed("grpc://127.0.0.1:{port}")
    line = grpc_line("127.0.0.1:{port}")
    assert (caught.value.hint or "").endswith(line)
    assert parsed(line, port="9").scheme is Scheme.EXEC
    assert line in (Path(__file__).parents[3] / "docs" / "probes.md").read_text()


def test_of_all_the_first_address_is_the_services_own_and_of_any_each() -> None:
    parts = ["file:x", "tcp://h:1", {"http": "/"}]
    every = parsed(msgspec.convert({"all": parts}, ReadySpec))
    assert [part.describe() for part in every.own()] == ["tcp://h:1"]
    assert (every.host, every.port, every.is_network) == ("h", 1, True)
    one = parsed(msgspec.convert({"any": parts}, ReadySpec))
    assert [part.port for part in one.own()] == [1, 5]


@pytest.mark.parametrize(
    "ready", ["http://user:hunter2@h/", '{ http = "/", authorization = "Bearer hunter2" }']
)
def test_a_secret_in_the_wrong_place_is_refused_without_being_shown(ready: str) -> None:
    with pytest.raises(ValueError, match="variable") as caught:
        parsed(ready)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "sent"),
    [("abc", "Bearer abc"), (" abc\n", "Bearer abc"), ("Basic dXNlcg==", "Basic dXNlcg==")],
)
def test_authorization_is_a_bearer_token_unless_it_says_what_it_is(value: str, sent: str) -> None:
    probe = parsed(ReadySpec(http="/", authorization="KEY"))
    assert probe.authorization_value({"KEY": value}) == sent


@pytest.mark.parametrize("environment", [{}, {"KEY": ""}, {"KEY": "a\r\nb"}])
def test_a_variable_that_cannot_be_sent_is_told_by_its_name(environment: dict[str, Any]) -> None:
    probe = parsed(ReadySpec(http="/", authorization="KEY"))
    with pytest.raises(ValueError, match="KEY"):
        probe.authorization_value(environment)
