# SPDX-License-Identifier: Apache-2.0
"""Names, proxies and ports."""

import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from ci_doctor.checks.check import CheckStatus, DoctorCheck, result_of
from ci_doctor.checks.network import (
    Lookup,
    checks,
    fixed_ports,
    httpx_refusal,
    look_up_name,
    loopback_proxy,
    ports,
    proxied_names,
    wrong_host,
    wrong_hostname,
    wrong_localhost,
)
from ci_doctor.checks.settings import DoctorSettings
from ci_doctor.services.ready import ReadySpec
from ci_doctor.services.spec import ServiceSpec
from tests.support.checks import check_context

PROGRAM = """
import pathlib
from ci_doctor.checks.network import loopback
from tests.support.checks import check_context
result = loopback.run(check_context(pathlib.Path("/")))
print(result.status, result.problems[0].finding.remedy)
"""


def test_a_new_network_namespace_has_its_loopback_interface_down() -> None:
    """As in a container that is started with `--network none` by some runtimes."""
    alone = ["unshare", "--user", "--map-root-user", "--net"]
    try:
        subprocess.run([*alone, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no network namespace can be made here")

    ran = subprocess.run(
        [*alone, sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )

    assert ran.stdout == "error ip link set lo up\n", ran.stderr


ABSENT = Lookup(error="Name or service not known")


@pytest.mark.parametrize(
    ("lookup", "status", "remedy"),
    [
        (Lookup(addresses=("::1", "127.0.0.1")), CheckStatus.OK, None),
        (Lookup(addresses=("::1",)), CheckStatus.WARNING, None),
        (Lookup(addresses=("127.0.0.1", "192.0.2.7")), CheckStatus.ERROR, None),
        (ABSENT, CheckStatus.ERROR, "printf '\\n127.0.0.1 localhost\\n' >> /etc/hosts"),
    ],
    ids=["both loopback addresses", "IPv6 alone", "another machine", "none"],
)
def test_localhost_is_this_machine(lookup: Lookup, status: CheckStatus, remedy: str | None) -> None:
    result = result_of(wrong_localhost(lookup))

    assert result.status is status
    assert remedy is None or result.problems[0].finding.remedy == remedy


def test_a_name_of_our_own_or_a_host_without_an_address_is_said_with_the_reason() -> None:
    own = result_of(wrong_hostname("agent-1", ABSENT))
    host = result_of(wrong_host("hub.example", ABSENT))

    assert own.status is CheckStatus.WARNING
    assert own.problems[0].finding.remedy == "printf '\\n127.0.1.1 %s\\n' agent-1 >> /etc/hosts"
    assert host.status is CheckStatus.ERROR
    assert host.summary == "hub.example does not resolve: Name or service not known"
    assert look_up_name(f"{'a' * 64}.example").error


@pytest.mark.parametrize(
    ("listed", "asked"),
    [
        ("127.0.0.0/8", "127.0.0.1 and localhost"),
        ("localhost", "127.0.0.1"),
        ("127.0.0.1, LOCALHOST", None),
        ("*", None),
    ],
)
def test_the_names_for_which_a_proxy_is_asked_are_said(
    listed: str, asked: str | None, tmp_path: Path
) -> None:
    environ = {"HTTP_PROXY": "http://user:hunter2@proxy.example:3128", "no_proxy": listed}

    result = loopback_proxy.run(check_context(tmp_path, environ=environ))

    expected = [] if asked is None else [f"the proxy of HTTP_PROXY is asked for {asked}"]
    assert [each.finding.summary for each in result.problems] == expected
    assert "hunter2" not in repr(result)


def test_an_empty_variable_in_lower_case_hides_the_other_and_an_unreadable_one_is_a_warning(
    tmp_path: Path,
) -> None:
    hidden = {"HTTP_PROXY": "http://proxy.example:3128", "http_proxy": ""}
    unreadable = {"http_proxy": "p:1", "no_proxy": "127.0.0.1,localhost,[::1]"}

    (found,) = loopback_proxy.run(check_context(tmp_path, environ=unreadable)).problems

    assert found.finding.rule == "doctor/proxy-unusable"
    assert loopback_proxy.run(check_context(tmp_path, environ=hidden)).problems == ()


def test_the_remedy_cures_the_warning(tmp_path: Path) -> None:
    environ = {"http_proxy": "p:1", "no_proxy": "internal.example"}
    result = loopback_proxy.run(check_context(tmp_path, environ=environ))
    (found,) = result.problems

    printed = subprocess.run(
        ["sh", "-c", f"{found.finding.remedy}; env"],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    after = dict(line.partition("=")[::2] for line in printed.splitlines())

    assert after["no_proxy"] == "internal.example,127.0.0.1,localhost,::1"
    assert loopback_proxy.run(check_context(tmp_path, environ=after)).status is CheckStatus.OK


LISTS = [
    "127.0.0.0/8",
    "localhost",
    "127.0.0.1",
    "127.0.0.1,localhost",
    "a.example, localhost",
    "*",
    "127.",
    ".localhost",
    "LOCALHOST",
    "localhost:8000",
    "*.example",
    "",
]
HOSTS = ["127.0.0.1", "localhost"]


@pytest.fixture(autouse=True)
def _no_proxies_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http", "https", "all", "no"):
        monkeypatch.delenv(f"{name}_proxy", raising=False)
        monkeypatch.delenv(f"{name}_proxy".upper(), raising=False)


def set_all(monkeypatch: pytest.MonkeyPatch, environ: Mapping[str, str]) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("listed", LISTS)
@pytest.mark.parametrize("host", HOSTS)
def test_what_we_call_direct_httpx_and_urllib_do_not_ask_a_proxy_for(
    monkeypatch: pytest.MonkeyPatch, listed: str, host: str
) -> None:
    environ = {"http_proxy": "http://proxy.example:3128", "no_proxy": listed}
    set_all(monkeypatch, environ)

    with httpx.Client() as client:
        transport = client._transport_for_url(httpx.URL(f"http://{host}/"))
        direct = transport is client._transport

    is_direct = direct and bool(urllib.request.proxy_bypass(host))
    assert (host not in proxied_names(environ)) is is_direct


@pytest.mark.parametrize(
    "environ",
    [
        {"http_proxy": "http://p:1", "no_proxy": "localhost,[::1]"},
        {"ALL_PROXY": "ftp://p:1"},
        {"http_proxy": "p:1", "no_proxy": "::1"},
        {"https_proxy": "http://p:1"},
        {"all_proxy": "ftp://p:1", "no_proxy": "*"},
    ],
)
def test_httpx_refuses_what_we_say_it_refuses(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]
) -> None:
    set_all(monkeypatch, environ)

    try:
        httpx.Client().close()
        refused = False
    except (ValueError, httpx.InvalidURL):
        refused = True

    assert (httpx_refusal(environ) is not None) is refused


def test_httpx_needs_a_package_for_socks() -> None:
    assert "socksio" in (httpx_refusal({"all_proxy": "socks5://p:1080"}) or "")


def hosts_of(names: list[str]) -> list[DoctorCheck]:
    return [each for each in checks(DoctorSettings(hosts=names)) if "host-" in each.id]


def test_each_named_host_is_a_check_of_its_own(tmp_path: Path) -> None:
    made = hosts_of(["127.0.0.1", "127.0.0.2", "127.0.0.1"])

    assert [check.id for check in made] == ["network/host-127.0.0.1", "network/host-127.0.0.2"]
    result = made[1].run(check_context(tmp_path))
    assert (result.status, result.summary) == (CheckStatus.OK, "127.0.0.2 is 127.0.0.2")
    assert hosts_of([]) == []


@pytest.mark.parametrize(
    ("ready", "port"),
    [
        ("http://127.0.0.1:8000/health", 8000),
        ("tcp://localhost:6379", 6379),
        (ReadySpec(tcp="127.0.0.1:6380"), 6380),
        ("http://127.0.0.1:{port}/health", None),
        ("http://127.0.0.1:{kv.port}/health", None),
        ("http://192.0.2.1:8000/health", None),
        ("/health", None),
        ("log:ready", None),
    ],
)
def test_a_port_counts_if_it_is_fixed_and_of_this_machine(
    tmp_path: Path, ready: str | ReadySpec, port: int | None
) -> None:
    services = {"vllm": ServiceSpec(command="serve", ready=ready)}

    named = fixed_ports(check_context(tmp_path, services=services))

    assert [each for _, each in named] == ([] if port is None else [port])


def service(port: int) -> dict[str, ServiceSpec]:
    return {"vllm": ServiceSpec(command="serve", ready=f"http://127.0.0.1:{port}/health")}


def test_who_holds_a_port_is_said_with_pid_user_command_and_a_line_to_paste(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        result = ports.run(check_context(tmp_path, services=service(port)))
    free = ports.run(check_context(tmp_path, services=service(port)))

    (found,) = result.problems
    assert result.status is CheckStatus.ERROR
    head = f"port {port} of the service vllm is taken by pid {os.getpid()} of "
    assert found.finding.summary.startswith(head)
    assert "python" in found.finding.summary
    assert f"kill {os.getpid()}" in (found.finding.remedy or "")
    assert (free.status, free.summary) == (CheckStatus.OK, f"free: {port}")
