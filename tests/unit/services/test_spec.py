# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import msgspec
import pytest

from ci_doctor.errors import UsageError
from ci_doctor.services.ready import ReadinessProbe, Scheme
from ci_doctor.services.spec import LaunchContext, ServiceSpec, fill, fill_spec, start_order

CONTEXT = LaunchContext(
    environment={"PATH": "/bin", "A": "1"},
    directory=Path("/work"),
    log_directory=Path("/logs"),
    placeholders={"arm": "baseline", "start": "2"},
)


def test_text_is_split_as_a_shell_splits_words() -> None:
    assert ServiceSpec(command="vllm serve 'a b' --x=\"y z\"").words() == [
        "vllm",
        "serve",
        "a b",
        "--x=y z",
    ]


def test_a_list_of_words_is_taken_as_it_is() -> None:
    assert ServiceSpec(command=["a", "'b"]).words() == ["a", "'b"]


def test_an_unknown_key_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="comand"):
        msgspec.convert({"command": "a", "comand": "b"}, ServiceSpec)


@pytest.mark.parametrize("value", ["400s", 400, 400.0, "6m40s"])
def test_a_start_timeout_is_text_or_a_number(value: str | float) -> None:
    spec = msgspec.convert({"command": "a", "start_timeout": value}, ServiceSpec)
    assert spec.start_timeout_s() == 400.0


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ('{"p": {s.port}, "a": "{role}", "b": {}}', '{"p": 81, "a": "{role}", "b": {}}'),
        # Templates of other programs: Go's and Jinja's, a shell's, an escaped brace.
        ("{{s.port}} {{ s.port }} {{{s.port}}}", "{{s.port}} {{ s.port }} {{{s.port}}}"),
        (r"${s.port} \{s.port}", r"${s.port} \{s.port}"),
        # Of JSON the brace beside it is another one.
        ('{"a":{"port":{s.port}}}', '{"a":{"port":81}}'),
        ("{s.port}{s.port}:{t.port}", "8181:{s.port}"),
        ("{{s.port}", "{81"),
    ],
)
def test_a_brace_that_is_no_placeholder_survives(text: str, filled: str) -> None:
    assert fill(text, {"s.port": "81", "t.port": "{s.port}"}) == filled


def test_every_placeholder_is_replaced_everywhere() -> None:
    spec = ServiceSpec(
        command=["serve", "--port={port}", "--kv", "127.0.0.1:{kv.port}", "{arm}-{start}"],
        env={"ARM": "{arm}", "PORT": "{port}"},
        cwd="runs/{arm}",
        ready="http://127.0.0.1:{port}/health?arm={arm}",
    )
    filled = fill_spec(spec, CONTEXT, {"kv": 7000, "vllm": 8000}, "vllm")
    assert filled.words == ("serve", "--port=8000", "--kv", "127.0.0.1:7000", "baseline-2")
    assert filled.env == {"PATH": "/bin", "A": "1", "ARM": "baseline", "PORT": "8000"}
    assert filled.cwd == Path("/work/runs/baseline")
    assert filled.probe == ReadinessProbe(
        scheme=Scheme.HTTP, host="127.0.0.1", port=8000, path="/health?arm=baseline"
    )


@pytest.mark.parametrize(
    ("ready", "fixed"),
    [
        ("/health", False),
        ("http://127.0.0.1:{port}/", False),
        ("tcp://127.0.0.1:8000", True),
        ("tcp://x:{kv.port}", True),
        ('{ http = "/health", status = 204 }', False),
        ('{ tcp = "127.0.0.1:8000" }', True),
        ("log:port 8000", False),
    ],
)
def test_a_fixed_port_is_one_that_the_service_was_not_given(ready: str, fixed: bool) -> None:
    assert ServiceSpec(command="a", ready=ready).has_fixed_port() is fixed


def spec(*needs: str) -> ServiceSpec:
    return ServiceSpec(command="serve {port}", needs=list(needs))


def test_a_service_comes_after_what_it_needs_and_only_once() -> None:
    specs = {"c": spec("a", "b"), "b": spec("a"), "a": spec(), "unused": spec("nowhere")}
    assert start_order(specs, ["c", "a"]) == ("a", "b", "c")


def test_names_keep_their_order_otherwise() -> None:
    assert start_order({"a": spec(), "b": spec()}, ["b", "a"]) == ("b", "a")


def test_a_circle_is_told_in_full() -> None:
    with pytest.raises(UsageError, match="b -> c -> b"):
        start_order({"a": spec("b"), "b": spec("c"), "c": spec("b")}, ["a"])


def test_an_unknown_need_is_told_with_the_nearest_name() -> None:
    with pytest.raises(UsageError) as caught:
        start_order({"vllm": spec("lmcach"), "lmcache": spec()}, ["vllm"])
    assert 'service "vllm" needs "lmcach"' in caught.value.message
    assert "lmcache" in (caught.value.hint or "")


def test_no_name_at_all_is_refused() -> None:
    with pytest.raises(UsageError, match="no service is named"):
        start_order({"a": spec()}, [])
