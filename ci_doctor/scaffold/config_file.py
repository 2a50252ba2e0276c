# SPDX-License-Identifier: Apache-2.0
"""Pure. The text of `ci-doctor.toml`: a server as a `[services.NAME]` table, values as TOML (https://toml.io/en/v1.0.0)."""

import json
import re
import shlex
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from ci_doctor.scaffold.arms import ArmsKind, ProposedArms
from ci_doctor.scaffold.candidates import ServerCandidate
from ci_doctor.scaffold.servers import Api
from ci_doctor.scaffold.words import LIVE, unknown_variables

_PLAIN: Final = re.compile(r"[^'\x00-\x08\x0a-\x1f\x7f]*")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_WIDEST: Final = 90


def toml_string(text: str) -> str:
    """A string: a literal one if quotes would have to be escaped."""
    text = text.encode("utf-8", "replace").decode()
    if ('"' in text or "\\" in text) and _PLAIN.fullmatch(text):
        return f"'{text}'"
    # JSON's escapes are TOML's, but for DEL, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_key(name: str) -> str:
    """A key, quoted if it must be."""
    return name if _BARE_KEY.fullmatch(name) else toml_string(name)


def toml_list(words: Sequence[str]) -> str:
    """A list of strings, one a line if they are too long for one line."""
    written = [toml_string(word) for word in words]
    line = f"[{', '.join(written)}]"
    if len(line) <= _WIDEST:
        return line
    inner = "".join(f"  {each},\n" for each in written)
    return f"[\n{inner}]"


def toml_table(values: dict[str, str]) -> str:
    """A table of strings in one line."""
    pairs = [f"{toml_key(name)} = {toml_string(value)}" for name, value in values.items()]
    return f"{{ {', '.join(pairs)} }}"


_SIMPLE: Final = re.compile(r"[\w@%+=:,./{}\[\]-]+")
_LIVE: Final = re.compile(LIVE)
_WIDEST_COMMAND: Final = 88


def service_table(name: str, server: ServerCandidate, *comments: str) -> str:
    """The table with where it comes from, and what a reader must know, as comments above it."""
    # A comment ends with its line, whatever a file is called.
    remarks = (*comments, *_remarks(server))
    lines = ["# " + "".join(filter(str.isprintable, remark)) for remark in remarks]
    lines += [f"[services.{toml_key(name)}]", f"command = {_command(server)}"]
    # The variables whose values are known; the others are set by the shell.
    settled = {name: value for name, value in server.env.items() if not unknown_variables([value])}
    if settled:
        lines.append(f"env = {toml_table(settled)}")
    if server.cwd:
        lines.append(f"cwd = {toml_string(server.cwd)}")
    lines.append(f"ready = {toml_string(server.ready)}")
    return "\n".join(lines) + "\n"


def _remarks(server: ServerCandidate) -> list[str]:
    remarks = list(server.notes)
    if server.unknown:
        names = ", ".join(server.unknown)
        remarks.append(f"the job must set {names}: the shell below takes them from its environment")
    if server.command.in_container:
        remarks.append("there it runs in a container; here it runs as it is")
    return remarks


def _command(server: ServerCandidate) -> str:
    """A text if no word needs a quote, else a list; with variables a shell of its own."""
    if server.unknown:
        return toml_list(["bash", "-uc", f"exec {_script(server)}"])
    if all(_SIMPLE.fullmatch(word) for word in server.words):
        line = " ".join(server.words)
        if len(line) <= _WIDEST_COMMAND:
            return toml_string(line)
    return toml_list(server.words)


def _script(server: ServerCandidate) -> str:
    """The words for a shell, in which the variables are still alive."""
    words = [_quoted(word) for word in server.words]
    variables = [
        f"{name}={_quoted(value)}"
        for name, value in server.env.items()
        if unknown_variables([value])
    ]
    return " ".join(["env", *variables, *words] if variables else words)


def _quoted(word: str) -> str:
    if not _LIVE.search(word):
        return word if _SIMPLE.fullmatch(word) else shlex.quote(word)
    escaped = re.sub(r'([\\"$`])', r"\\\1", word)
    return f'"{_LIVE.sub("$", escaped)}"'


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
    name = "app" if arms.baseline.is_app else arms.baseline.kind
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
        twin = replace(arms.candidate, notes=())
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


def _correctness(arms: ProposedArms, baseline: str, candidate: str) -> str:
    services = [candidate] if arms.store is None else [STORE, candidate]
    lines = [
        "[correctness]",
        *(
            ["# One starter request stands there: put those of your application in its place."]
            if Api.ROUTES in arms.baseline.apis
            else []
        ),
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
