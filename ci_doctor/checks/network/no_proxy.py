# SPDX-License-Identifier: Apache-2.0
"""Pure. What HTTP clients make of the proxy variables: which of them go past the proxy.

Tried with curl 7.88, requests 2.34, httpx 0.28 and urllib of CPython 3.11. Go's net/http never asks
a proxy for a loopback address, so it is not listed.
"""

import ipaddress
from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class HttpClient(StrEnum):
    """Clients that read the variables differently."""

    CURL = "curl"
    OLD_CURL = "curl before 7.86"
    REQUESTS = "requests"
    HTTPX = "httpx"
    URLLIB = "urllib and aiohttp"


LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost")

# An empty variable in lower case hides the other for urllib (getproxies_environment) and httpx.
_EMPTY_COUNTS: Final = frozenset({HttpClient.HTTPX, HttpClient.URLLIB})
_READS_NETWORKS: Final = frozenset({HttpClient.CURL, HttpClient.REQUESTS})
# What httpx can speak to (httpx.Proxy), and what it needs another package for.
_HTTPX_SCHEMES: Final = frozenset({"http", "https", "socks5", "socks5h"})


def proxy_variable(client: HttpClient, environ: Mapping[str, str]) -> str | None:
    """The variable from which `client` takes the proxy for an http:// address; None if it has none."""
    names = ["http_proxy"]
    # curl ignores HTTP_PROXY, because a web server sets it from a header (curl(1), ENVIRONMENT).
    if client not in {HttpClient.CURL, HttpClient.OLD_CURL}:
        names.append("HTTP_PROXY")
    name = _first_set(client, names, environ)
    if name is None and client is not HttpClient.URLLIB:
        name = _first_set(client, ["all_proxy", "ALL_PROXY"], environ)
    return name


def goes_direct(client: HttpClient, host: str, environ: Mapping[str, str]) -> bool:
    """Whether no_proxy makes `client` go past the proxy to `host`, an IPv4 address or a name."""
    name = _first_set(client, ["no_proxy", "NO_PROXY"], environ)
    if name is None:
        return False
    value = environ[name].strip()
    if value == "*":
        return True
    entries = _entries(client, value)
    return any(_matches(client, host, entry) for entry in entries)


def proxied(environ: Mapping[str, str]) -> dict[HttpClient, tuple[str, ...]]:
    """The clients that ask a proxy for this machine's own servers, with the names for which they do."""
    clients = {}
    for client in HttpClient:
        if proxy_variable(client, environ) is None:
            continue
        names = tuple(name for name in LOOPBACK_NAMES if not goes_direct(client, name, environ))
        if names:
            clients[client] = names
    return clients


def httpx_refusal(environ: Mapping[str, str]) -> str | None:
    """Why httpx raises an exception when a client is made, as a clause; None if it does not."""
    no_proxy = _first_set(HttpClient.HTTPX, ["no_proxy", "NO_PROXY"], environ)
    entries: list[str] = []
    if no_proxy is not None:
        entries = _entries(HttpClient.HTTPX, environ[no_proxy])
    if "*" in entries:
        return None
    for entry in entries:
        if entry.startswith("["):
            return f"{no_proxy} has `{entry}`; without the brackets it can be read"
    for scheme in ("http", "https", "all"):
        reason = _scheme_refusal(scheme, environ)
        if reason is not None:
            return reason
    return None


def _scheme_refusal(scheme: str, environ: Mapping[str, str]) -> str | None:
    """What httpx does not bear in the proxy for `scheme`."""
    names = [f"{scheme}_proxy", f"{scheme}_proxy".upper()]
    name = _first_set(HttpClient.HTTPX, names, environ)
    if name is None:
        return None
    kind, mark, _ = environ[name].partition("://")
    if not mark:  # httpx takes it for http
        return None
    if kind.lower() not in _HTTPX_SCHEMES:
        return f"{name} has the scheme `{kind}`"
    if kind.lower().startswith("socks"):
        return f"{name} is a SOCKS proxy, for which it needs the package socksio"
    return None


def _first_set(client: HttpClient, names: list[str], environ: Mapping[str, str]) -> str | None:
    for name in names:
        if environ.get(name, "").strip():
            return name
        if name in environ and client in _EMPTY_COUNTS:
            return None
    return None


def _entries(client: HttpClient, value: str) -> list[str]:
    # curl takes blanks for commas.
    if client in {HttpClient.CURL, HttpClient.OLD_CURL}:
        value = value.replace(" ", ",")
    entries = [entry.strip() for entry in value.split(",")]
    return [entry for entry in entries if entry]


def _matches(client: HttpClient, host: str, entry: str) -> bool:
    if entry == "*":
        return client is HttpClient.HTTPX
    if "/" in entry:
        return client in _READS_NETWORKS and _is_in_network(host, entry)
    # `.localhost` means names below it alone to httpx, and the name itself to the others.
    if client is not HttpClient.HTTPX:
        entry = entry.lstrip(".")
    return entry.lower() == host


def _is_in_network(host: str, entry: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False
