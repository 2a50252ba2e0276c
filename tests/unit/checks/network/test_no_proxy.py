"""What clients make of the proxy variables, held against those that are installed here."""

import shutil
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Iterator, Mapping

import httpx
import pytest

from ci_doctor.checks.network.no_proxy import HttpClient, goes_direct, httpx_refusal, proxied

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
def test_httpx_goes_where_we_say_it_goes(
    monkeypatch: pytest.MonkeyPatch, listed: str, host: str
) -> None:
    environ = {"http_proxy": "http://proxy.example:3128", "no_proxy": listed}
    set_all(monkeypatch, environ)

    with httpx.Client() as client:
        transport = client._transport_for_url(httpx.URL(f"http://{host}/"))
        direct = transport is client._transport

    assert goes_direct(HttpClient.HTTPX, host, environ) is direct


@pytest.mark.parametrize("listed", LISTS)
@pytest.mark.parametrize("host", HOSTS)
def test_urllib_goes_where_we_say_it_goes(
    monkeypatch: pytest.MonkeyPatch, listed: str, host: str
) -> None:
    environ = {"http_proxy": "http://proxy.example:3128", "no_proxy": listed}
    set_all(monkeypatch, environ)

    direct = bool(urllib.request.proxy_bypass(host))

    assert goes_direct(HttpClient.URLLIB, host, environ) is direct


@pytest.fixture(scope="module")
def answering() -> Iterator[int]:
    """A server that answers each request with its first line: of a proxy's, the whole address."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    line = connection.recv(4096).partition(b"\r\n")[0]
                    size = str(len(line)).encode()
                    connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: " + size + b"\r\n\r\n")
                    connection.sendall(line)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
@pytest.mark.parametrize("listed", LISTS)
@pytest.mark.parametrize("host", HOSTS)
def test_curl_goes_where_we_say_it_goes(answering: int, listed: str, host: str) -> None:
    environ = {"http_proxy": f"127.0.0.1:{answering}", "no_proxy": listed}

    ran = subprocess.run(
        ["curl", "-s", f"http://{host}:{answering}/"],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    client = HttpClient.OLD_CURL if _is_old() else HttpClient.CURL
    assert goes_direct(client, host, environ) is ran.stdout.startswith("GET / ")


def _is_old() -> bool:
    line = subprocess.run(["curl", "--version"], capture_output=True, text=True, check=True).stdout
    major, minor = line.split()[1].split(".")[:2]
    return (int(major), int(minor)) < (7, 86)


def test_without_a_proxy_nobody_asks_one() -> None:
    assert proxied({"no_proxy": "", "https_proxy": "http://proxy.example:3128"}) == {}


def test_a_network_in_no_proxy_is_not_read_by_old_curl_httpx_and_urllib() -> None:
    environ = {"HTTP_PROXY": "p:1", "http_proxy": "p:1", "NO_PROXY": "localhost,127.0.0.0/8"}

    assert proxied(environ) == {
        HttpClient.OLD_CURL: ("127.0.0.1",),
        HttpClient.HTTPX: ("127.0.0.1",),
        HttpClient.URLLIB: ("127.0.0.1",),
    }


def test_curl_does_not_read_http_proxy_in_upper_case() -> None:
    assert set(proxied({"HTTP_PROXY": "p:1"})) == {
        HttpClient.REQUESTS,
        HttpClient.HTTPX,
        HttpClient.URLLIB,
    }


def test_urllib_does_not_read_all_proxy() -> None:
    assert HttpClient.URLLIB not in proxied({"ALL_PROXY": "p:1"})
    assert HttpClient.CURL in proxied({"ALL_PROXY": "p:1"})


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
