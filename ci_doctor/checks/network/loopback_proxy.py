# SPDX-License-Identifier: Apache-2.0
"""Reads the proxy variables: whether requests to servers of this machine go to a proxy."""

from ci_doctor.checks.check import CheckResult, DoctorCheck, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.network.no_proxy import (
    LOOPBACK_NAMES,
    HttpClient,
    httpx_refusal,
    proxied,
    proxy_variable,
)
from ci_doctor.checks.network.rules import LOOPBACK_PROXIED, PROXY_UNUSABLE
from ci_doctor.model.finding import ShellCommand


def _run(context: CheckContext) -> CheckResult:
    environ = context.environ
    variables = [proxy_variable(client, environ) for client in HttpClient]
    used = sorted({name for name in variables if name is not None})
    problems: list[Problem] = []
    clients = proxied(environ)
    if clients:
        problems.append(_proxied(clients, used))
    refusal = httpx_refusal(environ)
    if refusal is not None:
        words = f"httpx, and so openai, cannot make a client: {refusal}"
        problems.append(problem(PROXY_UNUSABLE, words))
    return CheckResult(summary=_summary(used, clients), problems=tuple(problems))


def _summary(used: list[str], clients: dict[HttpClient, tuple[str, ...]]) -> str:
    if not used:
        return "no proxy is set for http"
    if not clients:
        return f"{' and '.join(used)}: no client asks the proxy for this machine's own servers"
    return f"{' and '.join(used)}: some clients ask the proxy for this machine's own servers"


def _proxied(clients: dict[HttpClient, tuple[str, ...]], used: list[str]) -> Problem:
    """One sentence for each set of names, with the clients that ask a proxy for them."""
    by_names: dict[tuple[str, ...], list[HttpClient]] = {}
    for client, names in clients.items():
        by_names.setdefault(names, []).append(client)
    clauses = []
    for names, alike in by_names.items():
        clauses.append(f"{_listed(alike)} for {' and '.join(names)}")
    summary = f"the proxy of {' and '.join(used)} is asked by {'; by '.join(clauses)}"
    added = ",".join((*LOOPBACK_NAMES, "::1"))
    export = f'export no_proxy="${{no_proxy:+$no_proxy,}}{added}" && export NO_PROXY="$no_proxy"'
    return problem(LOOPBACK_PROXIED, summary, remedy=ShellCommand(export))


def _listed(clients: list[HttpClient]) -> str:
    """`curl, httpx, urllib and aiohttp`. An old curl is named only if a new one does better."""
    shown = list(clients)
    if HttpClient.CURL in clients and HttpClient.OLD_CURL in clients:
        shown.remove(HttpClient.OLD_CURL)
    return ", ".join(shown)


CHECK = DoctorCheck(
    id="network/loopback-proxy",
    title="proxies for servers of this machine",
    run=_run,
)
