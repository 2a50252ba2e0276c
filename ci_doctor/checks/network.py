# SPDX-License-Identifier: Apache-2.0
"""Acts on sockets of our own; reads names, proxies and the ports of services. No other host is asked."""

import ipaddress
import shlex
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from ci_doctor.checks.check import (
    DoctorCheck,
    Findings,
    Need,
    check,
    problem,
    result_of,
)
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.processes import read_processes
from ci_doctor.checks.settings import ALL, DoctorSettings
from ci_doctor.model.outcome import Rule, Severity, ShellCommand
from ci_doctor.services.ports import is_local
from ci_doctor.services.ready import parse_ready
from ci_doctor.system.processes.listeners import holders, listening_inodes


def checks(settings: DoctorSettings) -> tuple[DoctorCheck, ...]:
    """The checks of the network, with one for each host that the repository names."""
    hosts = [host_check(host) for host in dict.fromkeys(settings.hosts)]
    return (loopback, localhost, hostname, loopback_proxy, *hosts, ports)


LOOPBACK_DOWN: Final = Rule(
    id="doctor/loopback-down",
    severity=Severity.ERROR,
    meaning="No connection over 127.0.0.1 is possible, so no client reaches a server on this machine. "
    "A new network namespace begins with its loopback interface down.",
    remedy="ip link set lo up",
)


@check("network/loopback", title="the loopback interface", needed_for=ALL)
def loopback(_context: CheckContext) -> Findings:
    import socket

    # What fails here is no socket at all: not the network's fault, so the result is unknown.
    with socket.socket() as server, socket.socket() as client:
        client.settimeout(1.0)
        try:
            server.bind(("127.0.0.1", 0))
            server.listen(1)
            client.connect(server.getsockname())
        except TimeoutError:
            raise
        except OSError as error:
            summary = f"no connection over 127.0.0.1: {error.strerror or error}"
            yield problem(LOOPBACK_DOWN, summary, remedy=ShellCommand("ip link set lo up"))
            return summary
    return "127.0.0.1 can be connected to"


class Lookup(NamedTuple):
    """The `addresses` of a name, or `error`: why there are none."""

    addresses: tuple[str, ...] = ()
    error: str | None = None


def look_up_name(name: str) -> Lookup:
    """Ask the system's resolver (getaddrinfo(3)); it may take as long as its nameservers do."""
    import socket

    try:
        answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return Lookup(error=getattr(error, "strerror", None) or str(error))
    # Each once, in the order in which programs try them.
    return Lookup(tuple(dict.fromkeys(str(address[0]) for *_, address in answers)))


LOCALHOST_UNRESOLVED: Final = Rule(
    id="doctor/localhost-unresolved",
    severity=Severity.ERROR,
    meaning="The name localhost does not lead to the loopback interface, so programs do not find "
    "servers of this machine.",
    remedy="Give the name 127.0.0.1 in /etc/hosts, and take it from other addresses there.",
)
LOCALHOST_SIX_ONLY: Final = Rule(
    id="doctor/localhost-ipv6-only",
    severity=Severity.WARNING,
    meaning="The name localhost leads to ::1 alone. A client that asks for localhost does not reach a "
    "server that listens on 127.0.0.1 or 0.0.0.0.",
    remedy="printf '\\n127.0.0.1 localhost\\n' >> /etc/hosts",
)
# The file may end without a newline, and is a mount in a container, which no rename replaces.
_ADD = ShellCommand("printf '\\n127.0.0.1 localhost\\n' >> /etc/hosts")
# A further line would not help: the lookup gives every address that the file has for a name.
_REPLACE = ShellCommand(
    "hosts=$(sed -E -e '/^[[:space:]]*(127\\.|::1[[:space:]])/b' -e ':again' "
    "-e 's/^([^#]*[[:space:]])localhost([[:space:]#]|$)/\\1\\2/I' -e 't again' /etc/hosts) "
    "&& printf '127.0.0.1 localhost\\n%s\\n' \"$hosts\" > /etc/hosts"
)


@check("network/localhost", title="what the name localhost leads to", needed_for=ALL)
def localhost(_context: CheckContext) -> Findings:
    return (yield from wrong_localhost(look_up_name("localhost")))


def wrong_localhost(lookup: Lookup) -> Findings:
    """What the addresses of localhost mean."""
    if lookup.error is not None:
        summary = f"localhost does not resolve: {lookup.error}"
        yield problem(LOCALHOST_UNRESOLVED, summary, remedy=_ADD)
        return summary
    summary = f"localhost is {', '.join(lookup.addresses)}"
    parsed = [ipaddress.ip_address(text.partition("%")[0]) for text in lookup.addresses]
    if not all(address.is_loopback for address in parsed):
        yield problem(
            LOCALHOST_UNRESOLVED,
            f"{summary}, which is not this machine's loopback",
            remedy=_REPLACE,
        )
    elif not any(address.version == 4 for address in parsed):
        yield problem(LOCALHOST_SIX_ONLY, f"{summary}, and not 127.0.0.1", remedy=_ADD)
    return summary


HOSTNAME_UNRESOLVED: Final = Rule(
    id="doctor/hostname-unresolved",
    severity=Severity.WARNING,
    meaning="This machine's own name has no address. torch.distributed and Gloo look it up when "
    "workers connect, and fail or wait.",
    remedy="printf '\\n127.0.1.1 %s\\n' \"$(hostname)\" >> /etc/hosts",
)


@check("network/hostname", title="the address of this machine's own name")
def hostname(_context: CheckContext) -> Findings:
    import socket

    name = socket.gethostname()
    return (yield from wrong_hostname(name, look_up_name(name)))


def wrong_hostname(name: str, lookup: Lookup) -> Findings:
    """What the addresses of our own `name` mean."""
    if lookup.error is None:
        return f"{name} is {', '.join(lookup.addresses)}"
    summary = f"this machine's name {name} does not resolve: {lookup.error}"
    yield problem(
        HOSTNAME_UNRESOLVED,
        summary,
        remedy=ShellCommand(f"printf '\\n127.0.1.1 %s\\n' {shlex.quote(name)} >> /etc/hosts"),
    )
    return summary


LOOPBACK_PROXIED: Final = Rule(
    id="doctor/loopback-proxied",
    severity=Severity.WARNING,
    meaning="Requests to a server on this machine go to a proxy, which cannot reach it. A readiness "
    "probe then waits until its timeout for a server that is ready. ci-doctor's own probes and "
    "clients use no proxy.",
    remedy='export no_proxy="${no_proxy:+$no_proxy,}localhost,127.0.0.1,::1" && '
    'export NO_PROXY="$no_proxy"',
)
PROXY_UNUSABLE: Final = Rule(
    id="doctor/proxy-unusable",
    severity=Severity.WARNING,
    meaning="httpx, and openai above it, reads the proxy variables when a client is made, and raises "
    "an exception for some values, whatever the address of a request.",
    remedy="Write the variables as httpx reads them, or make clients with trust_env=False.",
)
_LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost")
# What httpx can speak to (httpx.Proxy); for SOCKS it needs another package.
_HTTPX_SCHEMES: Final = frozenset({"http", "https", "socks5", "socks5h"})


@check("network/loopback-proxy", title="proxies for servers of this machine")
def loopback_proxy(context: CheckContext) -> Findings:
    # By what every client reads: an entry of `no_proxy` that is the very name or address, or `*`
    # alone. httpx, urllib and aiohttp read no network such as 127.0.0.0/8.
    environ = context.environ
    used = [_set_variable(scheme, environ) for scheme in ("http_proxy", "all_proxy")]
    head = " and ".join(name for name in used if name is not None)
    refusal = httpx_refusal(environ)
    if refusal is not None:
        yield problem(PROXY_UNUSABLE, f"httpx, and so openai, cannot make a client: {refusal}")
    if not head:
        return "no proxy is set for http"
    asked = proxied_names(environ)
    if not asked:
        return f"{head}: no client asks the proxy for this machine's own servers"
    added = ",".join((*_LOOPBACK_NAMES, "::1"))
    yield problem(
        LOOPBACK_PROXIED,
        f"the proxy of {head} is asked for {' and '.join(asked)}",
        remedy=ShellCommand(
            f'export no_proxy="${{no_proxy:+$no_proxy,}}{added}" && export NO_PROXY="$no_proxy"'
        ),
    )
    return f"{head}: some clients ask the proxy for this machine's own servers"


def proxied_names(environ: Mapping[str, str]) -> list[str]:
    """The names of this machine for which some client asks the proxy, if there is one."""
    entries = _no_proxy(environ)
    return [name for name in _LOOPBACK_NAMES if name not in entries and entries != ["*"]]


def _set_variable(name: str, environ: Mapping[str, str]) -> str | None:
    """`name` or its capitals, whichever holds something; an empty one in lower case hides the other."""
    for each in (name, name.upper()):
        if each in environ:
            return each if environ[each].strip() else None
    return None


def _no_proxy(environ: Mapping[str, str]) -> list[str]:
    name = _set_variable("no_proxy", environ)
    entries = [entry.strip().lower() for entry in environ[name].split(",")] if name else []
    return [entry for entry in entries if entry]


def httpx_refusal(environ: Mapping[str, str]) -> str | None:
    """Why httpx raises an exception when a client is made, as a clause; None if it does not."""
    entries = _no_proxy(environ)
    if "*" in entries:
        return None
    for entry in entries:
        if entry.startswith("["):
            name = _set_variable("no_proxy", environ)
            return f"{name} has `{entry}`; without the brackets it can be read"
    for scheme in ("http_proxy", "https_proxy", "all_proxy"):
        name = _set_variable(scheme, environ)
        # Without a scheme httpx takes it for http.
        kind, mark, _ = environ[name or ""].partition("://") if name else ("", "", "")
        if mark and kind.lower() not in _HTTPX_SCHEMES:
            return f"{name} has the scheme `{kind}`"
        if mark and kind.lower().startswith("socks"):
            return f"{name} is a SOCKS proxy, for which it needs the package socksio"
    return None


HOST_UNRESOLVED: Final = Rule(
    id="doctor/host-unresolved",
    severity=Severity.ERROR,
    meaning="A host of `hosts` in [doctor] has no address here, so the job cannot reach it.",
    remedy="Check the nameservers in /etc/resolv.conf.",
)


def host_check(host: str) -> DoctorCheck:
    """A check for one host, so that one slow answer does not hold up the others."""
    return DoctorCheck(
        id=f"network/host-{host}",
        title=f"the address of {host}",
        needed_for=ALL,
        # As long as glibc waits for one nameserver (resolv.conf(5), options timeout).
        deadline_s=5.0,
        run=lambda _context: result_of(wrong_host(host, look_up_name(host))),
    )


def wrong_host(host: str, lookup: Lookup) -> Findings:
    """What the addresses of `host` mean."""
    if lookup.error is None:
        return f"{host} is {', '.join(lookup.addresses)}"
    summary = f"{host} does not resolve: {lookup.error}"
    yield problem(
        HOST_UNRESOLVED,
        summary,
        remedy=f"compare the nameservers with those of another agent: `cat /etc/resolv.conf; getent ahosts {host}`",
    )
    return summary


PORT_TAKEN: Final = Rule(
    id="doctor/port-taken",
    severity=Severity.ERROR,
    meaning="Another process listens on the port of a configured service, so the service cannot start "
    "there, or its probe is answered by the other process.",
    remedy="End that process, or give the service `{port}`, a free one.",
)


@check(
    "network/ports",
    title="ports of the configured services",
    need=Need.SERVICES,
    needed_for=ALL,
)
def ports(context: CheckContext) -> Findings:
    named = dict(fixed_ports(context))
    taken = 0
    for service, port in named.items():
        inodes = listening_inodes(port)
        if not inodes:
            continue
        taken += 1
        head = f"port {port} of the service {service} is taken"
        processes = context.shared(read_processes)
        pid = next(holders(processes, inodes), None)
        if pid is None:
            yield problem(
                PORT_TAKEN,
                f"{head} by a process of another user",
                remedy=f"ask the user who owns it: `sudo ss -ltnp 'sport = :{port}'`",
            )
            continue
        look = f"ps -o pid,user,lstart,args -p {pid}"
        yield problem(
            PORT_TAKEN,
            f"{head} by {processes[pid].describe()}",
            remedy=ShellCommand(f"kill {pid}  # if it is of no use: {look}"),
        )
    if not named:
        return "no service has a port of its own choice"
    listed = ", ".join(map(str, named.values()))
    return f"{taken} taken of {listed}" if taken else f"free: {listed}"


def fixed_ports(context: CheckContext) -> Iterator[tuple[str, int]]:
    """Each service whose probe names a port of this machine, and that port."""
    for name, spec in context.services.items():
        try:
            if not spec.has_fixed_port():
                continue
            probe = parse_ready(spec.ready, 0, directory=context.cwd)
        except ValueError:  # another service's placeholder, or what the service's own start reports
            continue
        if probe.is_network and is_local(probe.host):
            yield name, probe.port
