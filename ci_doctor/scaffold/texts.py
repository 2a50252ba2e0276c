# SPDX-License-Identifier: Apache-2.0
"""Pure. The texts that are proposed: requests, ci-doctor.toml, and a step, a workflow and a hook."""

import json
import re
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from ci_doctor.buildkite.steps import rules_for
from ci_doctor.scaffold.agents import PipelineStep
from ci_doctor.scaffold.arms import ArmsKind, HookPlace, ProposedArms, ScaffoldFacts
from ci_doctor.scaffold.candidates import ServerCandidate
from ci_doctor.scaffold.servers import Api
from ci_doctor.scaffold.words import LIVE, unknown_variables
from ci_doctor.syntax.yaml import (
    Field,
    MappingNode,
    ScalarNode,
    SequenceNode,
    compose,
    walk,
    with_plain_breaks,
)

# Starter requests for the APIs that many servers have.
#
# All are repeatable: the likeliest token each time, a seed, a bounded answer. Prompts have several lengths,
# and some a beginning in common: servers reuse the keys and values of a prefix by blocks, 16 tokens in vLLM,
# 256 in LMCache. So a long prefix has more than 256 tokens, and a cache under test is hit.

ALONE: Final = (
    "The capital of Norway is",
    "Count from one to ten in words:",
    "Name three tools of a carpenter.",
    "def fibonacci(n):",
    "Translate into French: the train leaves at noon.",
    "A list of five colours:\n1.",
    "Explain in two sentences why ice floats on water.",
    "Write a short notice for a library that closes one hour earlier on Fridays this winter.",
)
# Fits into a context of some hundred tokens, a byte each.
SHORT_BEGINNING: Final = (
    "Log of the lock keeper, Monday: the upper gate was painted, two barges waited for an hour, "
    "and the pump ran until six."
)
_LONG_PARTS: Final = (
    "Register of the harbour at Stone Quay, first quarter.",
    "The harbour has four berths, two cranes and one dry dock.",
    "Berth one takes ships of up to ninety metres, berth two of up to seventy.",
    "Berths three and four are for fishing boats and are free at night.",
    "The large crane lifts forty tonnes and is inspected on the first Monday of each month.",
    "The small crane lifts twelve tonnes and was moved to berth two in February.",
    "In January eleven ships called, and six of them carried timber.",
    "The timber went by rail to the mill at Upper Ferry, forty wagons in all.",
    "One ship, the Northern Lark, waited three days because of fog.",
    "In February nine ships called; four carried salt and two carried machine parts.",
    "The machine parts were for the new pumps of the dry dock.",
    "Two pumps were fitted on the fourteenth, and the third one on the twentieth.",
    "Since then the dock is empty in fifty minutes; before it took two hours.",
    "In March fourteen ships called, more than in any month of the year before.",
    "A barge touched the pier of berth three on the ninth; nobody was hurt.",
    "The pier was repaired within a week, and the barge paid for the planks.",
    "The fee for a night is eighteen crowns for each ten metres of length.",
    "Ships that stay for more than a week pay half of it from the eighth night on.",
    "The harbour office opens at six and closes at ten in the evening.",
    "Letters for crews are kept in the office for thirty days.",
    "Fresh water is drawn at berth two, and ice at the fish hall.",
    "The pilot boat leaves on the hour between seven and nineteen.",
)
LONG_BEGINNING: Final = " ".join(_LONG_PARTS)
QUESTIONS: Final = (
    "What happened first?",
    "How many things are counted here?",
    "Write one sentence that sums it up.",
    "Which part needed a repair?",
    "List every number in it.",
    "What would you ask the writer?",
    "Repeat the last sentence.",
    "Who has to wait, and for how long?",
    "Give it a title of three words.",
    "Which day is named?",
    "Continue it with one more sentence.",
    "Rewrite it as a question.",
)


_LIMITS: Final = (16, 48, 96)
_SMALL_LIMITS: Final = (8, 16, 24)

Body = dict[str, Any]
RequestLine = dict[str, Any]


def api_requests(
    apis: Sequence[Api], paths: Mapping[Api, str], model: str | None, *, short: bool
) -> list[RequestLine]:
    """Twenty requests, the APIs in turn; of an application's own routes one, to be replaced.

    Eight prompts stand alone, twelve share one of two beginnings. paths: where an API is not at its
    usual place. short: the server's context may be small.
    """
    if Api.ROUTES in apis:
        path = paths.get(Api.ROUTES, "/")
        return [{"id": "route-01", "path": path, "method": "GET", "protocol": "json"}]
    limits = _SMALL_LIMITS if short else _LIMITS
    half = len(QUESTIONS) // 2
    beginnings = [""] * len(ALONE) + [SHORT_BEGINNING if short else LONG_BEGINNING] * half
    beginnings += [SHORT_BEGINNING] * (len(QUESTIONS) - half)
    lines: list[RequestLine] = []
    numbers = dict.fromkeys(apis, 0)
    pairs = zip(beginnings, (*ALONE, *QUESTIONS), strict=True)
    for at, (beginning, question) in enumerate(pairs):
        api = apis[at % len(apis)]
        numbers[api] += 1
        path, body = _form(api, beginning, question, limits[at % len(limits)])
        if model is not None and api not in _WITHOUT_MODEL:
            body = {"model": model, **body}
        identity = f"{api}-{numbers[api]:02}"
        lines.append({"id": identity, "path": paths.get(api, path), "body": body})
    return lines


def _form(api: Api, beginning: str, question: str, limit: int) -> tuple[str, Body]:
    """The usual path and the body of a request. limit: of the answer, in tokens."""
    text = f"{beginning}\n\n{question}" if beginning else question
    plain: Body = {"max_tokens": limit, "temperature": 0, "seed": 0}
    match api:
        case Api.CHAT:
            system = [{"role": "system", "content": beginning}] if beginning else []
            messages = [*system, {"role": "user", "content": question}]
            return "/v1/chat/completions", {"messages": messages, **plain}
        case Api.EMBEDDINGS:
            # Several texts at once make another batch than one.
            return "/v1/embeddings", {"input": [text, question] if beginning else [text]}
        case Api.TGI_GENERATE:
            # It refuses a temperature of 0, and takes the likeliest token without sampling.
            likeliest = {"do_sample": False, "seed": 0, "details": True}
            parameters = {"max_new_tokens": limit, **likeliest}
            return "/generate", {"inputs": text, "parameters": parameters}
        case Api.SGLANG_GENERATE:
            parameters = {"temperature": 0, "max_new_tokens": limit}
            return "/generate", {"text": text, "sampling_params": parameters}
        case _:
            return "/v1/completions", {"prompt": text, **plain}


_WITHOUT_MODEL: Final = frozenset((Api.TGI_GENERATE, Api.SGLANG_GENERATE))


# The text of `ci-doctor.toml`: a server as a `[services.NAME]` table, values as TOML (https://toml.io/en/v1.0.0).

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


# A Buildkite step, a GitHub workflow and a hook of pre-commit that install ci-doctor and run it.
#
# The hook is a local one, which takes a wheel as well as a repository: https://pre-commit.com/#repository-local-hooks

PIPELINE: Final = ".buildkite/ci-doctor.yml"
_MINUTES: Final = 40
_PIPELINES_PLAIN: Final = re.compile(r"[\w./][\w./:@%#+-]*", re.ASCII)


def upload_line() -> str:
    """The command of a step that adds the written pipeline to a build."""
    return f"buildkite-agent pipeline upload {PIPELINE}"


def pipeline_text(
    facts: ScaffoldFacts,
    commands: Sequence[str],
    step: PipelineStep | None,
    plugin: str,
    requirement: str,
    codes: Mapping[str, int],
) -> str:
    """The whole file.

    commands: those of the step. step: the one that starts the server today. plugin, requirement: what loads the
    plugin and what it installs. codes: the exit code of each verdict.
    """
    lines = ["steps:", '  - label: "ci-doctor: correctness"', '    key: "ci-doctor-correctness"']
    lines += _pipelines_command(commands)
    lines += [f"    timeout_in_minutes: {_MINUTES}"]
    lines += _agents(step, facts.queues)
    lines += ["    plugins:", f"      - {_plain_or_quoted(plugin)}:"]
    lines.append(f"          install: {_pipelines_quoted(requirement)}")
    if facts.config is not None:
        lines.append(f"          config: {_pipelines_quoted(facts.config)}")
    # The retry and soft-fail rules, as `ci-doctor config retry-rules` prints them.
    rules = rules_for(codes).yaml.rstrip("\n").split("\n")
    # The head is about the command that prints it.
    lines += [f"    {line}" for line in rules if not line.startswith("#")]
    return "\n".join(lines) + "\n"


def _pipelines_command(commands: Sequence[str]) -> list[str]:
    if len(commands) == 1:
        return [f"    command: {_pipelines_quoted(commands[0])}"]
    return ["    command:", *(f"      - {_pipelines_quoted(command)}" for command in commands)]


def _pipelines_quoted(text: str) -> str:
    """A string of YAML; an upload would put a variable in place of a `$`."""
    return json.dumps(text, ensure_ascii=False).replace("$", "$$")


def _plain_or_quoted(text: str) -> str:
    return text if _PIPELINES_PLAIN.fullmatch(text) else _pipelines_quoted(text)


def _agents(step: PipelineStep | None, queues: Sequence[str]) -> list[str]:
    """The agents of the step that starts the server; else the only queue; else which ones there are."""
    if step is not None:
        origin = f"    # as the step at {step.place}, which runs this server".splitlines()[0]
        if not step.agents:
            return []
        # Its own `$NAME` is one for the upload, too.
        pairs = [
            f"      {_plain_or_quoted(name)}: {json.dumps(value, ensure_ascii=False)}"
            for name, value in step.agents
        ]
        return [origin, "    agents:", *pairs]
    if len(queues) == 1:
        return ["    agents:", f"      queue: {json.dumps(queues[0], ensure_ascii=False)}"]
    if not queues:
        return []
    known = ", ".join("".join(filter(str.isprintable, queue)) for queue in queues)
    return [
        "    # No step is known to run this server. Name its agents; the pipelines have these queues:",
        f"    # {known}",
    ]


WORKFLOW: Final = ".github/workflows/ci-doctor.yml"
_HEAD: Final = """\
name: ci-doctor
on:
  workflow_dispatch:
{pull_request}permissions:
  contents: read
jobs:
  correctness:
    runs-on: {machine}
    timeout-minutes: 40
    steps:
      - uses: actions/checkout@v5
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - run: |
"""
_TAIL: Final = """\
      - run: |
          {command} --report-dir ci-doctor-report
      - uses: actions/upload-artifact@v4
        if: always()
        with:
          name: ci-doctor-report
          path: ci-doctor-report
"""


def workflow_text(
    command: str, install: Sequence[str], requirement: str, *, needs_gpu: bool
) -> str:
    """The whole file. install: what the server needs. A hosted machine has no GPU."""
    machine, pull_request = "ubuntu-latest", "  pull_request:\n"
    if needs_gpu:
        machine = "[self-hosted, gpu] # the labels of a runner of yours with a GPU"
        pull_request = "  # pull_request: # once runs-on names such a runner\n"
    lines = [f'python -m pip install "{requirement}"', *install]
    installed = "".join(f"          {line}\n" for line in lines)
    head = _HEAD.format(machine=machine, pull_request=pull_request)
    return f"{head}{installed}{_TAIL.format(command=command)}"


PRE_COMMIT: Final = ".pre-commit-config.yaml"
HOOK: Final = "ci-doctor-lint"
# A folder that git ignores by a file of its own: what names a path of this machine stays on it.
OWN_FOLDER: Final = ".ci-doctor"
OWN_IGNORE: Final = f"{OWN_FOLDER}/.gitignore"
OWN_PRE_COMMIT: Final = f"{OWN_FOLDER}/pre-commit.yaml"
OWN_IGNORE_TEXT: Final = "# What lies here is of this machine alone.\n*\n"


def pre_commit_entry(requirement: str, place: HookPlace) -> str:
    """The item of the list `repos` that installs ci-doctor, indented as those that are there."""
    entry = _hook(
        "ci-doctor lint", f'python\n        additional_dependencies:\n          ["{requirement}"]'
    )
    entry = textwrap.indent(textwrap.dedent(entry), place.indent or "")
    return entry if place.has_list else f"repos:\n{entry}"


_NO_LIST: Final = ("", "~", "null", "Null", "NULL")


def hook_place(text: str) -> HookPlace:
    """Where the file of pre-commit with this text takes a further item of `repos`."""
    text = with_plain_breaks(text)
    read = compose(text)
    root = read.documents[0] if read.documents else None
    lines = text.rstrip().split("\n")
    is_empty = root is None or (isinstance(root, ScalarNode) and root.value in _NO_LIST)
    if read.problem is None and is_empty:
        return HookPlace(words="at its end", has_list=False)
    if read.problem is not None or len(read.documents) > 1 or not isinstance(root, MappingNode):
        return HookPlace(words="which is no YAML that pre-commit reads: mend it", indent=None)
    field = root.fields.get("repos")
    if field is not None:
        below = [each.key.line for each in root.fields.values() if each.key.line > field.key.line]
        return _place_in(field, lines[: min(below, default=len(lines) + 1) - 1])
    if any(line.startswith(("{", "...")) for line in lines):
        return HookPlace(words="which has no list `repos:` in lines: write one", indent=None)
    return HookPlace(words="at its end", has_list=False)


def _place_in(repos: Field, lines: list[str]) -> HookPlace:
    """`lines` end before the next key."""
    key, value = repos.key, repos.value
    items = value.items if isinstance(value, SequenceNode) else []
    is_empty = isinstance(value, ScalarNode) and value.value in _NO_LIST
    if is_empty or (isinstance(value, SequenceNode) and not items and value.end_line == key.line):
        return HookPlace(words=f"in place of line {key.line}", has_list=False)
    dash = re.match(r"( *)- ", lines[items[0].line - 1]) if items else None
    if dash is None:
        return HookPlace(words="whose `repos` is in brackets: write it in lines", indent=None)
    # Comments before the next key belong to that one.
    least = max(each.end_line for each in walk(value) if isinstance(each, ScalarNode))
    last = len(lines)
    while last > least and re.match(r"\s*(#|$|---|\.\.\.)", lines[last - 1]):
        last -= 1
    return HookPlace(words=f"after line {last}, the last of `repos`", indent=dash[1])


def own_pre_commit_text(program: Sequence[str]) -> str:
    """The whole file with a hook that starts the ci-doctor of this machine."""
    return f"repos:\n{_hook(json.dumps(shlex.join([*program, 'lint'])), 'system')}"


def _hook(entry: str, language: str) -> str:
    return f"""\
  - repo: local
    hooks:
      - id: {HOOK}
        name: ci-doctor lint
        entry: {entry}
        language: {language}
        types_or: [shell, yaml, python]
        require_serial: true
"""


def pre_commit_text(requirement: str) -> str:
    """The whole file."""
    return pre_commit_entry(requirement, HookPlace(has_list=False))
