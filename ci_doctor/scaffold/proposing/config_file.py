# SPDX-License-Identifier: Apache-2.0
"""Pure. The text of `ci-doctor.toml`."""

from typing import Final

from msgspec.structs import replace

from ci_doctor.scaffold.proposing.service_table import service_table
from ci_doctor.scaffold.proposing.toml_text import toml_list, toml_string
from ci_doctor.scaffold.servers.candidate import ServerCandidate
from ci_doctor.scaffold.servers.choose import ArmsKind, ProposedArms

CONFIG: Final = "ci-doctor.toml"
REQUESTS: Final = "ci-doctor-requests.jsonl"
SCHEMA: Final = "ci-doctor.schema.json"
STORE: Final = "kv"

_SKELETON: Final = """\
# No command that starts a server was recognised here. Put yours in place of this example,
# write the requests that it shall answer, and take the `# ` away:
#
# [services.server]
# command = "python server.py --port {port}"     # {port} becomes a free port; no shell runs it
# ready = "/health"                              # or tcp://127.0.0.1:{port}, log:…, exec:…
#
# [services.server-candidate]
# command = "python server.py --port {port} --my-change"
# ready = "/health"
#
# [correctness]
# requests = "ci-doctor-requests.jsonl"          # {"id": "r1", "path": "/v1/completions", "body": {…}}
#
# [correctness.baseline]
# services = ["server"]
#
# [correctness.candidate]
# services = ["server-candidate"]
"""
_PROOF: Final = (
    "# A cache that was never used proves nothing: name a counter on /metrics.\n"
    '# proof = [{ metric = "THE_COUNTER_OF_HITS", above = 0 }]\n'
)


def config_text(arms: ProposedArms | None) -> str:
    """The whole file; without arms a skeleton in comments."""
    head = f"#:schema ./{SCHEMA}\n"
    if arms is None:
        return f"{head}{_SKELETON}"
    baseline, candidate = arm_names(arms)
    parts = [
        f"{head}# Written by `ci-doctor init`; `ci-doctor config show` prints every value.",
        _services(arms, baseline, candidate),
        _correctness(arms, baseline, candidate),
    ]
    return "\n".join(parts)


def arm_names(arms: ProposedArms) -> tuple[str, str]:
    """The names of the services that answer, of the baseline and of the candidate."""
    name = "app" if arms.baseline.app is not None else arms.baseline.kind
    if arms.candidate.connector is None:
        return name, f"{name}-candidate"
    return f"{name}-plain", f"{name}-{_short(arms.candidate)}"


def _short(server: ServerCandidate) -> str:
    connector = (server.connector or "kv").lower()
    for name in ("lmcache", "hicache", "mooncake", "nixl", "offloading"):
        if name in connector:
            return name
    return "kv"


def _services(arms: ProposedArms, baseline: str, candidate: str) -> str:
    tables = [service_table(baseline, arms.baseline, *_of_baseline(arms))]
    if arms.store is not None:
        origin = f"from {arms.store.origin}"
        tables.append(service_table(STORE, arms.store, origin))
    tables.append(_candidate(arms, candidate))
    return "\n".join(tables)


def _of_baseline(arms: ProposedArms) -> list[str]:
    origin = f"from {arms.baseline.origin}"
    if arms.kind is ArmsKind.CONNECTOR_OFF:
        return [f"{origin}, without its connector"]
    return [origin]


def _candidate(arms: ProposedArms, name: str) -> str:
    if arms.kind is ArmsKind.SAME:
        # What was noted stands above the baseline.
        twin = _without_notes(arms.candidate)
        return service_table(
            name,
            twin,
            "YOUR CHANGE GOES INTO THIS COMMAND. Until then it is the baseline again:",
            "a run shows whether the server repeats itself, and nothing about a change.",
        )
    comments = [f"from {arms.candidate.origin}"]
    if arms.also:
        also = "besides the connector " if arms.candidate.connector else ""
        comments.append(f"the two differ {also}by {' '.join(arms.also)}")
    return service_table(name, arms.candidate, *comments)


def _without_notes(server: ServerCandidate) -> ServerCandidate:
    return replace(server, notes=())


def _correctness(arms: ProposedArms, baseline: str, candidate: str) -> str:
    services = [candidate] if arms.store is None else [STORE, candidate]
    lines = [
        "[correctness]",
        f"requests = {toml_string(REQUESTS)}",
        "",
        "[correctness.baseline]",
        f"services = {toml_list([baseline])}",
        "",
        "[correctness.candidate]",
        f"services = {toml_list(services)}",
    ]
    text = "\n".join(lines) + "\n"
    return text if arms.candidate.connector is None else text + _PROOF
