# SPDX-License-Identifier: Apache-2.0
"""Acts on a real vLLM: makes it fail in ways with a known reason, and compares what ci-doctor says.

Each row of the table was written down before its run: the line that must stand on top, the advice about another run, and
the exit code. A top line is right if its regex matches; advice is right if it is the one written down, and the exit code too.
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from real_servers import breaking as by
from real_servers import place
from real_servers.breaking import Prepare, Scene

# How long a script waits for a server if nobody sees that it has died: vLLM's own limit for its engine.
SERVERS_OWN_S = 600
_LOST = 900


class Expected(NamedTuple):
    """Written before the run.

    line: a regex of the line of a log that stands on top; "" if none may be named, None if that does not matter. retry: a
    regex of the advice about another run: `yes`, `maybe` (unproven), `ask`, `no`, or nothing. code: the exit code.
    says: a regex of the first sentence that is printed.
    """

    line: str | None
    retry: str
    code: int
    says: str = ""


class Failure(NamedTuple):
    """name, how it is made in words, what is expected, how it is made, and by which door ci-doctor sees it."""

    name: str
    how: str
    expected: Expected
    prepare: Prepare
    door: str = "launch"


NO = "no"
ASK = "ask"
NONE = ""
ASK_OR_NONE = "ask|"

_OFFLINE = r"HF_HUB_OFFLINE|offline mode|LocalEntryNotFound|couldn't connect|[Cc]annot find"
_RAISES = "raise RuntimeError('the team plugin needs TEAM_HOME')"
_DRIFT = "from vllm.utils.network_utils import get_ip\nget_ip(timeout=3)"
_OVERRIDE = """\
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1

class TeamConnector(KVConnectorBase_V1):
    def get_num_new_matched_tokens(self, request):
        return 0, False
"""
_SEGFAULT = "import ctypes; ctypes.string_at(0)"

FAILURES: tuple[Failure, ...] = (
    # Options and values.
    Failure("option-unknown", "`--enable-foo`", Expected(r"unrecognized arguments: --enable-foo", NO, 2), by.flags("--enable-foo")),
    Failure("dtype-unknown", "`--dtype int9`", Expected(r"argument --dtype: invalid choice: 'int9'", NO, 2), by.flags("--dtype", "int9")),
    Failure("speculative-json", "`--speculative-config '{method: ngram'`", Expected(r"argument --speculative-config\S*: Value \{method: ngram", NO, 2), by.flags("--speculative-config", "{method: ngram")),
    Failure("speculative-method", "`--speculative-config` with a method that is none", Expected(r"ngrm|Input should be", NO, 1), by.flags("--speculative-config", '{"method": "ngrm", "num_speculative_tokens": 3}')),
    Failure("length-too-long", "`--max-model-len 100000`", Expected(r"User-specified max_model_len \(100000\) is greater", NO, 1), by.flags("--max-model-len", "100000")),
    Failure("cache-too-small", "`--num-gpu-blocks-override 2`", Expected(r"serve at least one request|KV cache", NO, 1), by.flags("--num-gpu-blocks-override", "2")),
    Failure("cache-too-large", "`VLLM_CPU_KVCACHE_SPACE=900`", Expected(r"is less than requested memory for kv", NO, 1), by.variables(VLLM_CPU_KVCACHE_SPACE="900")),
    Failure("variable-no-number", "`VLLM_CPU_KVCACHE_SPACE=1GiB`", Expected(r"invalid literal for int\(\).*1GiB", NO, 1), by.variables(VLLM_CPU_KVCACHE_SPACE="1GiB")),
    Failure("quantisation", "`--quantization gptq_marlin`", Expected(r"gptq_marlin", NO, 1), by.flags("--quantization", "gptq_marlin")),
    Failure("heads-not-divisible", "`--tensor-parallel-size 3`", Expected(r"attention heads \(4\) must be divisible", NO, 1), by.flags("--tensor-parallel-size", "3")),
    Failure("parallel-too-large", "`--tensor-parallel-size 2` bound to more NUMA nodes than there are", Expected(r"Not enough allowed NUMA nodes", NO, 1), by.both(by.flags("--tensor-parallel-size", "2"), by.variables(VLLM_CPU_OMP_THREADS_BIND="auto"))),
    Failure("offloading", "`OffloadingConnector`, which needs CUDA", Expected(r"only supported on CUDA", NO, 1), by.flags("--kv-transfer-config", '{"kv_connector": "OffloadingConnector", "kv_role": "kv_both", "kv_connector_extra_config": {"cpu_bytes_to_use": 1000000}}')),
    Failure("connector-unknown", "a KV connector that is none", Expected(r"NoSuchConnector", NO, 1), by.flags("--kv-transfer-config", '{"kv_connector": "NoSuchConnector", "kv_role": "kv_both"}')),
    Failure("backend-ignored", "`--attention-backend FLASHINFER`: the server goes on without", Expected("", NONE, 0), by.flags("--attention-backend", "FLASHINFER")),
    Failure("tool-parser", "`--tool-call-parser` that is none", Expected(r"invalid tool call parser: nobody", NO, 1), by.flags("--enable-auto-tool-choice", "--tool-call-parser", "nobody")),
    # The model.
    Failure("model-missing", "a folder that is not there", Expected(r"/no/such/model", NO, 1), by.named("/no/such/model")),
    Failure("hub-offline", "`HF_HUB_OFFLINE=1`, and the model is in no cache", Expected(_OFFLINE, NO, 1), by.both(by.named("team/none"), by.variables(HF_HOME="/tmp/ci-doctor-no-hub"))),
    Failure("weights-cut", "half of the safetensors file", Expected(r"SafetensorError", NO, 1), by.changed("model.safetensors", by.truncate)),
    Failure("weights-pointer", "a pointer of git-lfs in place of the weights", Expected(r"SafetensorError", NO, 1), by.changed("model.safetensors", by.pointer)),
    Failure("weights-missing", "no safetensors file", Expected(r"Cannot find any model weights", NO, 1), by.changed("model.safetensors", Path.unlink)),
    Failure("weights-shape", "`intermediate_size` twice as large in config.json", Expected(r"Attempted to load weight|size|shape|Error", NO, 1), by.changed("config.json", by.edit(intermediate_size=1024))),
    Failure("config-no-json", "config.json is cut", Expected(r"not a valid JSON|JSONDecodeError", NO, 1), by.changed("config.json", by.truncate)),
    Failure("architecture-unknown", "`architectures` that nobody knows", Expected(r"Model architectures? \['TeamForCausalLM'\]|TeamForCausalLM", NO, 1), by.changed("config.json", by.edit(architectures=["TeamForCausalLM"]))),
    Failure("type-unknown", "`model_type` that transformers does not know", Expected(r"does not recognize this architecture|team_model", NO, 1), by.changed("config.json", by.edit(model_type="team_model"))),
    Failure("tokenizer-cut", "tokenizer.json is cut", Expected(r"EOF while parsing|expected|Exception: |Error", NO, 1), by.changed("tokenizer.json", by.truncate)),
    Failure("tokenizer-larger", "a tokenizer with one token more than the model: the request is refused", Expected(None, NONE, 1, r"ended with exit code 1"), by.changed("tokenizer.json", by.one_token_more)),
    # Until the evening of 2026-11-29 a line about a permission was expected. vLLM's log has none: only the machine tells.
    Failure("model-unreadable", "the folder is another user's", Expected(r"Invalid repository ID or local directory", NO, 1, r"/model is of user 0 with mode 0700, and vllm ran as user 65534"), by.as_nobody),
    Failure("lora-missing", "`--lora-modules a=/no/such/adapter`", Expected(r"/no/such/adapter", NO, 1), by.flags("--enable-lora", "--lora-modules", "a=/no/such/adapter")),
    Failure("template-missing", "`--chat-template /no/such.jinja`", Expected(r"/no/such\.jinja", NO, 1), by.flags("--chat-template", "/no/such.jinja")),
    Failure("template-raises", "a chat template that raises for each chat", Expected(None, NONE, 1, r"ended with exit code 1"), by.both(by.flags("--chat-template", "{{ raise_exception('the team allows no chats') }}"), by.asks("chat"))),
    # Addresses.
    Failure("port-taken", "a process of another session listens on the port", Expected(None, "yes", 75, r"is owned by python"), by.taken_port),
    Failure("host-unknown", "`--host no-such-host.invalid`", Expected(r"gaierror|Name or service not known|name resolution", "no|maybe|ask", 1), by.flags("--host", "no-such-host.invalid")),
    Failure("host-not-ours", "`--host 192.0.2.77`, no address of this machine", Expected(r"Cannot assign requested address", NO, 1), by.flags("--host", "192.0.2.77")),
    Failure("socket-stale", "`--uds` with the file that a killed server left", Expected(r"[Aa]ddress already in use", "ask|maybe", 1), by.stale_socket),
    # Plugins and imports.
    Failure("plugin-import", "a plugin raises at its import: vLLM goes on, and the test misses it", Expected(None, NONE, 1, r"ended with exit code 1"), by.both(by.plugin("", before="raise RuntimeError('the team plugin needs TEAM_HOME')"), by.asks("adapter"))),
    Failure("plugin-raises", "a plugin's function raises", Expected(r"RuntimeError: the team plugin needs TEAM_HOME", NO, 1), by.plugin(_RAISES)),
    Failure("plugin-drift", "a plugin calls vLLM with an argument that it does not take", Expected(r"TypeError: get_ip\(\) got an unexpected keyword argument 'timeout'", NO, 1), by.plugin(_DRIFT)),
    Failure("plugin-config-drift", "a plugin makes a CacheConfig with a field that is gone", Expected(r"validation error for CacheConfig|swap_space", NO, 1), by.plugin("from vllm.config import CacheConfig\nCacheConfig(swap_space=4)")),
    Failure("plugin-name-gone", "a plugin's function imports a name that is gone", Expected(r"cannot import name 'SamplerOutputOld'", NO, 1), by.plugin("from vllm.v1.outputs import SamplerOutputOld")),
    Failure("module-shadowed", "a file `tokenizers.py` of the team hides the package", Expected(r"cannot import name .* from 'tokenizers'|tokenizers", NO, 1), by.shadowing),
    # Limits of the machine.
    Failure("memory-rlimit", "`prlimit --data=1500000000`", Expected(r"(?i)memory|alloc", ASK, 1), by.limited("--data=1500000000")),
    Failure("memory-cgroup", "a control group of 1.2 GB", Expected(None, ASK_OR_NONE, 1, r"ran out of memory"), by.cgroup("memory", "memory.limit_in_bytes", "1200000000")),
    Failure("memory-container", "the same for ci-doctor too, as in a container", Expected(None, ASK_OR_NONE, 1, r"ran out of memory"), by.cgroup("memory", "memory.limit_in_bytes", "1200000000", is_container=True)),
    # Until 2026-11-29 a line of the log was expected here. vLLM's log has none: only the kernel's counter tells.
    Failure("processes-cgroup", "a control group of 24 processes and threads", Expected(None, ASK_OR_NONE, 1, r"limit of 24 "), by.both(by.timeout("120s"), by.cgroup("pids", "pids.max", "24"))),
    Failure("files-rlimit", "`prlimit --nofile=48`", Expected(r"Too many open files", ASK, 1), by.limited("--nofile=48:48")),
    # Until the evening of 2026-11-29 a line was expected. The limit holds for the log too, so no line of it can say so.
    Failure("size-rlimit", "`prlimit --fsize=1000`: no file may grow, its log neither", Expected(None, ASK_OR_NONE, 1, r"no file beyond 1000 bytes"), by.limited("--fsize=1000")),
    Failure("size-rlimit-shared", "`prlimit --fsize=100000`: shared memory is a file too", Expected(r"File too large", ASK, 1), by.limited("--fsize=100000")),
    # Until 2026-11-30 75 was expected of both. The file system is the server's own: ci-doctor sees none that is full, and takes no line for proof.
    Failure("disk-full", "the compile cache on a full file system of the server's own", Expected(r"No space left on device", "yes", 1), by.both(by.compiled, by.mounted("size=64k", "", "VLLM_CACHE_ROOT", "TORCHINDUCTOR_CACHE_DIR", fill=True))),
    Failure("disk-no-inodes", "no inode is left where the server puts its sockets", Expected(r"No space left on device", "yes", 1), by.mounted("nr_inodes=1", "", "VLLM_RPC_BASE_PATH")),
    Failure("shm-small", "/dev/shm of 64 KiB", Expected(r"No space left on device|/dev/shm|[Bb]us error|shared memory", ASK, 1), by.mounted("size=64k", "/dev/shm")),
    # Ends and hangs.
    Failure("engine-killed", "SIGKILL to the engine core in the start", Expected(None, ASK_OR_NONE, 1, r"EngineCore|killed by SIGKILL|SIGKILL"), by.stopped_after("EngineCore", signal.SIGKILL)),
    Failure("server-terminated", "SIGTERM to the server in the start, from outside", Expected(None, ASK_OR_NONE, 1, r"died .*(?:SIGTERM|exit code)"), by.stopped_after("vllm serve", signal.SIGTERM)),
    Failure("start-interrupted", "SIGTERM to ci-doctor in the start", Expected("", NONE, 143), by.stopped_after("ci-doctor", signal.SIGTERM)),
    Failure("worker-segfault-start", "a worker reads address 0 in the start", Expected(None, "no|ask|", 1, r"Worker|SIGSEGV"), by.plugin(f"if 'Worker' in NAME:\n    {_SEGFAULT}")),
    Failure("worker-segfault-load", "a worker reads address 0 under load", Expected(None, "no|ask|", 1, r"SIGSEGV"), by.under_load("Worker", _SEGFAULT)),
    Failure("worker-killed-load", "SIGKILL to a worker under load", Expected(None, ASK_OR_NONE, 1, r"SIGKILL"), by.under_load("Worker", "os.kill(os.getpid(), signal.SIGKILL)")),
    # Until the evening of 2026-11-29 the end of the server was expected. The engine's own end says more; its name is `python` at times.
    Failure("engine-exits-load", "the engine core ends with 3 under load", Expected(None, ASK_OR_NONE, 1, r"lost its process .* exit code 3"), by.under_load("EngineCore", "os._exit(3)")),
    Failure("engine-raises-load", "a request with a seed, and a prompt that a step cuts: the engine raises, and ends", Expected(r"CPU Generator does not use offset", "no|", 1), by.both(by.flags("--max-num-batched-tokens", "64", "--max-num-seqs", "16"), by.asks("seed"))),
    Failure("engine-hangs-start", "the engine core never comes out of a plugin", Expected(None, ASK_OR_NONE, 1, r"was not ready within 1 min"), by.both(by.plugin("if 'EngineCore' in NAME:\n    time.sleep(3600)"), by.timeout("60s"))),
    Failure("server-hangs-start", "the server itself never comes out of a plugin", Expected(None, ASK_OR_NONE, 1, r"was not ready within 1 min"), by.both(by.plugin("time.sleep(3600)"), by.timeout("60s"))),
    # Until the evening of 2026-11-29 a hang was expected. Offline vLLM reads the snapshot as a folder, and takes no lock.
    Failure("hub-locked", "somebody holds the lock of the model in the hub's cache: the server goes on without", Expected(None, NONE, 0), by.hub_cache),
    Failure("worker-hangs-load", "SIGSTOP to a worker under load; a probe asks for a completion", Expected(None, ASK_OR_NONE, 1, r"hangs"), by.both(by.watched, by.under_load("Worker", "os.kill(os.getpid(), signal.SIGSTOP)"))),
    # The server is good, the client is not.
    Failure("client-impatient", "a client that waits half a second for 900 tokens", Expected(None, NONE, 1, r"ended with exit code 1"), by.asks("soon")),
    Failure("client-other-name", "a client that names another model", Expected(None, NONE, 1, r"ended with exit code 1"), by.asks("name")),
    Failure("client-too-long", "a client whose prompt is longer than the context", Expected(None, NONE, 1, r"ended with exit code 1"), by.asks("long")),
    # Other doors.
    Failure("wait-plugin-raises", "a plugin's function raises", Expected(r"RuntimeError: the team plugin needs TEAM_HOME", NO, 1), by.plugin(_RAISES), "wait"),
    Failure("wait-engine-killed", "SIGKILL to the engine core in the start", Expected(None, ASK_OR_NONE, 1, r"EngineCore|SIGKILL|exit code"), by.stopped_after("EngineCore", signal.SIGKILL), "wait"),
    Failure("wait-port-taken", "a process of another session listens on the port", Expected(None, "yes", 75, r"is owned by python"), by.taken_port, "wait"),
    Failure("wait-hangs-start", "the engine core never comes out of a plugin", Expected(None, ASK_OR_NONE, 1, r"not ready"), by.both(by.plugin("if 'EngineCore' in NAME:\n    time.sleep(3600)"), by.timeout("60s")), "wait"),
    Failure("run-weights-cut", "half of the safetensors file", Expected(r"SafetensorError", NO, 1), by.changed("model.safetensors", by.truncate), "run"),
    Failure("run-length-too-long", "`--max-model-len 100000`", Expected(r"User-specified max_model_len \(100000\) is greater", NO, 1), by.flags("--max-model-len", "100000"), "run"),
    Failure("run-hub-offline", "`HF_HUB_OFFLINE=1`, and the model is in no cache", Expected(_OFFLINE, NO, 1), by.both(by.named("team/none"), by.variables(HF_HOME="/tmp/ci-doctor-no-hub")), "run"),
    Failure("run-files", "`prlimit --nofile=48`", Expected(r"Too many open files", ASK, 1), by.limited("--nofile=48:48"), "run"),
    # Until the evening of 2026-11-29 a pass was expected. The engine and its worker live on after a SIGKILL to their server.
    Failure("restart-server", "SIGKILL to the server under load, and a new start", Expected(None, NONE, 1, r"outlived vllm by 10 s"), by.nothing, "restart-check"),
    Failure("restart-plugin", "a plugin that raises at the second start", Expected(None, "no|", 1), by.plugin("mark = Path(os.environ['TEAM_MARK'])\nif 'Process' not in NAME and mark.exists():\n    raise RuntimeError('the team plugin was here before')\nif 'Worker' in NAME:\n    mark.touch()"), "restart-check"),
    Failure("doctor-healthy", "an environment in which vLLM starts", Expected(None, NONE, 0), by.nothing, "doctor"),
    Failure("doctor-shadowed", "a file `tokenizers.py` of the team hides the package", Expected(None, NONE, 1, r"tokenizers|import"), by.shadowing, "doctor"),
    Failure("race-confirmed", "a thread imports transformers while the script does", Expected(None, NONE, 1, r"transformers"), by.racing, "import-race"),
    Failure("race-probe", "the import of `transformers:GenerationConfig` alone", Expected(None, NONE, 1, r"transformers"), by.nothing, "probe"),
    Failure("compat-drift", "the plugin of `plugin-drift`, read from its source", Expected(None, NONE, 1, r"timeout"), by.plugin(_DRIFT), "compat"),
    Failure("compat-override", "a connector that overrides a method with an argument too few", Expected(None, NONE, 1, r"get_num_new_matched_tokens"), by.plugin("", before=_OVERRIDE), "compat"),
    Failure("compat-name-gone", "a plugin that imports a name that is gone", Expected(None, NONE, 1, r"SamplerOutputOld"), by.plugin("from vllm.v1.outputs import SamplerOutputOld"), "compat"),
    Failure("compat-healthy", "a plugin that calls vLLM as it is", Expected(None, NONE, 0), by.plugin("from vllm.config import CacheConfig\nCacheConfig(block_size=16)"), "compat"),
)  # fmt: skip


# The client of a scene: what it asks, and it fails by an exception as a test would.
_CLIENT = """\
import concurrent.futures, json, sys, time, urllib.request
from pathlib import Path

def ask(url, path="completions", timeout=60, **more):
    body = {"model": "m", "max_tokens": 8, "temperature": 0, **more}
    if path == "completions":
        body.setdefault("prompt", "the small house in the valley")
    request = urllib.request.Request(f"{url}/v1/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return json.load(answer)

url, kind, *rest = sys.argv[1:]
if kind == "ask":
    ask(url)
elif kind == "soon":
    ask(url, timeout=0.5, max_tokens=900, ignore_eos=True)
elif kind == "chat":
    ask(url, "chat/completions", messages=[{"role": "user", "content": "hello"}])
elif kind == "seed":
    ask(url, prompt="the small house in the valley " * 40, seed=1, temperature=0.8)
elif kind == "name":
    ask(url, model="another")
elif kind == "long":
    ask(url, prompt="the small house in the valley " * 900)
elif kind == "adapter":
    assert "team" in ask(url).get("system_fingerprint", ""), "the team's adapter does not answer"
elif kind == "load":
    ask(url)
    Path(rest[0]).touch()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        until = time.monotonic() + 240
        while time.monotonic() < until:
            list(pool.map(lambda _: ask(url, max_tokens=64, timeout=200), range(8)))
"""


class Seen(NamedTuple):
    """What ci-doctor said.

    says: its first sentence; top: the line of the log that it puts on top; advice: about another run, as in `Expected`.
    printed: lines on the terminal. seconds: until the verdict. ended_s: when the server had ended, after its start.
    """

    code: int
    says: str
    top: str
    advice: str
    rule: str = ""
    printed: int = 0
    seconds: float = 0.0
    ended_s: float | None = None


def _ran(scene: Scene, words: Sequence[str], environment: Mapping[str, str] | None = None) -> Seen:
    """Run ci-doctor in the scene, and read its report."""
    report = scene.folder / "report"
    shutil.rmtree(report, ignore_errors=True)
    environ = {name: value for name, value in os.environ.items() if "BUILDKITE" not in name}
    environ |= dict(environment or {})
    begun = time.monotonic()
    with (scene.folder / "printed.txt").open("w") as printed:
        process = subprocess.Popen(
            words, cwd=scene.folder, stdout=printed, stderr=subprocess.STDOUT, env=environ
        )
        try:
            if scene.signal_after is not None:
                _send(scene, process)
            status = process.wait(_LOST)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(60)
    seconds = round(time.monotonic() - begun, 1)
    lines = (scene.folder / "printed.txt").read_text(errors="replace").count("\n")
    if not (report / "report.json").exists():
        raise RuntimeError(f"{scene.folder}: no report, exit {status}; read printed.txt")
    seen = _seen(json.loads((report / "report.json").read_text()), status)
    return seen._replace(printed=lines, seconds=seconds)


def _send(scene: Scene, process: subprocess.Popen[bytes]) -> None:
    """Send the signal of the scene once the engine begins to start."""
    pattern, name = scene.signal_after or ("", signal.SIGTERM)
    logs = (scene.folder / "report/logs/vllm-1.log", scene.folder / "server.log")
    while process.poll() is None:
        time.sleep(0.1)
        texts = [log.read_text(errors="replace") for log in logs if log.exists()]
        if not any("Initializing a V1 LLM engine" in text for text in texts):
            continue
        if pattern == "ci-doctor":
            process.send_signal(name)
            return
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if pattern in " ".join(child.cmdline()):
                    child.send_signal(name)
                    (scene.folder / "signal.txt").write_text(f"{name.name} to {child}\n")
                    return


def _seen(report: dict[str, Any], status: int) -> Seen:
    facts = report["facts"]
    order = ("error", "warning", "note")
    findings = sorted(report["findings"], key=lambda each: order.index(each["severity"]))
    failure = facts.get("cause") or {}
    diagnosis = facts.get("diagnosis") or facts
    cause = failure.get("cause") or diagnosis.get("root_cause") or {}
    top = cause.get("place", {}).get("message") or failure.get("misuse") or ""
    shown = failure or facts.get("beside") or {}
    root = shown.get("tail_root")
    if not top and root is not None:
        top = shown["tail"][root]
    says = (report.get("error") or {}).get("message") or failure.get("message")
    says = says or (findings[0]["summary"] if findings else report["summary"])
    advice = {"yes": "maybe"}.get(cause.get("retry", ""), cause.get("retry", ""))
    if failure.get("kind") == "outside" or cause.get("may_be_retried"):
        advice = "yes"
    if failure.get("misuse"):
        advice = NO
    return Seen(
        status, says, top, advice, cause.get("rule") or "", ended_s=failure.get("duration_s")
    )


def _ci_doctor(command: str, *words: str) -> list[str]:
    return [sys.executable, "-m", "ci_doctor", command, "--report-dir", "report", *words]


def _toml(scene: Scene) -> str:
    lines = [
        "[services.vllm]",
        f"command = {json.dumps(scene.words())}",
        f'start_timeout = "{scene.start_timeout}"',
        f'ready = "{scene.ready}"',
        *scene.settings,
        "[services.vllm.env]",
        *(f"{name} = {json.dumps(value)}" for name, value in scene.environment.items()),
    ]
    return "\n".join(lines) + "\n"


def _by_launch(scene: Scene) -> Seen:
    (scene.folder / "ci-doctor.toml").write_text(_toml(scene))
    client = scene.folder / "client.py"
    client.write_text(_CLIENT)
    asked = [sys.executable, str(client), f"http://127.0.0.1:{scene.port}", *scene.requests]
    return _ran(scene, [*scene.around, *_ci_doctor("launch", "--", *asked)])


def _by_wait(scene: Scene) -> Seen:
    given = ["--ready", scene.ready, "--log", "server.log", "--timeout", scene.start_timeout]
    script = f"""{shlex.join(scene.words())} > server.log 2>&1 &
{shlex.join(_ci_doctor("wait", *given))} --pid $!
code=$?
kill -9 $! 2>/dev/null
exit $code"""
    seen = _ran(scene, ["sh", "-c", script], scene.environment)
    # What a server has left is known by its folder: it may have a title in place of its command line.
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.cwd() == str(scene.folder):
                process.kill()
    return seen


def _by_run(scene: Scene) -> Seen:
    words = _ci_doctor("run", "--diagnose", "--exit-code-by-class", "--", *scene.words())
    return _ran(scene, words, scene.environment)


_RESTART = """
[restart-check]
services = ["vllm"]
requests = "requests.jsonl"
control_starts = 0
concurrency = 4
throughput = 0
recovery_timeout = "300s"
request_timeout = "120s"
"""


def _by_restart_check(scene: Scene) -> Seen:
    scene.environment["TEAM_MARK"] = str(scene.folder / "mark")
    body = {"model": "m", "max_tokens": 16, "temperature": 0}
    rows = [
        {"id": f"r{n}", "path": "/v1/completions", "body": body | {"prompt": f"house {n} in the"}}
        for n in range(16)
    ]
    (scene.folder / "requests.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (scene.folder / "ci-doctor.toml").write_text(_toml(scene) + _RESTART)
    return _ran(scene, _ci_doctor("restart-check"))


def _by_doctor(scene: Scene) -> Seen:
    given = ["--for", "vllm", "--imports", "--python", str(place.interpreter())]
    return _ran(scene, _ci_doctor("doctor", *given), scene.environment)


def _by_import_race(scene: Scene) -> Seen:
    given = ["--confirm", "--timeout", "600", "--", *scene.program, "--version"]
    return _ran(scene, _ci_doctor("import-race", *given), scene.environment)


def _by_probe(scene: Scene) -> Seen:
    given = ["transformers:GenerationConfig", "--python", str(place.interpreter())]
    words = [sys.executable, "-m", "ci_doctor", "import-race", "probe", *given]
    return _ran(scene, [*words, "--report-dir", "report"])


def _by_compat(scene: Scene) -> Seen:
    given = [str(scene.folder / "overlay"), "vllm", "--python", str(place.interpreter())]
    return _ran(scene, _ci_doctor("compat", *given))


_DOORS: dict[str, Callable[[Scene], Seen]] = {
    "launch": _by_launch,
    "wait": _by_wait,
    "run": _by_run,
    "restart-check": _by_restart_check,
    "doctor": _by_doctor,
    "import-race": _by_import_race,
    "probe": _by_probe,
    "compat": _by_compat,
}


def _is_top(expected: Expected, seen: dict[str, Any], *, is_by_log: bool = False) -> bool:
    says = is_by_log or re.search(expected.says, seen["says"]) is not None
    if expected.line is None:
        return says
    is_line = bool(re.search(expected.line, seen["top"])) if expected.line else not seen["top"]
    return says and is_line


def problems(expected: Expected, row: dict[str, Any]) -> list[str]:
    """What is wrong with a row; empty if nothing is."""
    seen, again = row["seen"], row.get("diagnose")
    wrong = []
    if not _is_top(expected, seen):
        wrong.append(f"on top: {seen['top'] or seen['says']}")
    if seen["code"] != expected.code or not re.fullmatch(expected.retry, seen["advice"]):
        wrong.append(f"another run: {seen['advice'] or 'nothing'}, exit code {seen['code']}")
    if again and not _is_top(expected, again, is_by_log=True):
        wrong.append(f"diagnose, on top: {again['top']}")
    if again and again["code"] == 75 and expected.code != 75:
        wrong.append("diagnose: exit code 75")
    return wrong


def run(failure: Failure) -> dict[str, Any]:
    """The row of a failure; the one that is kept if it has ended before.

    Raises MissingEnvironmentError, and RuntimeError if ci-doctor leaves no report.
    """
    row = place.kept_row("failures", failure.name)
    if row is None:
        with place.machine():
            row = measured(failure)
        place.keep_row("failures", failure.name, row)
    return row | {"problems": problems(failure.expected, row)}


def measured(failure: Failure) -> dict[str, Any]:
    """What ci-doctor says of a failure that is made now."""
    folder = place.folder_of("failures", failure.name)
    shutil.rmtree(folder)
    folder.mkdir()
    scene = Scene(folder)
    before = place.load()
    with scene.held:
        failure.prepare(scene)
        seen = _DOORS[failure.door](scene)
    row: dict[str, Any] = {
        "name": failure.name, "how": failure.how, "door": failure.door, "expected": failure.expected._asdict(),
        "seen": seen._asdict(), "load": [before, place.load()], "environment": place.VLLM,
    }  # fmt: skip
    if failure.door == "launch" and failure.expected.line is not None:
        row["diagnose"] = _read_again(scene)
    return row


def _read_again(scene: Scene) -> dict[str, Any] | None:
    """What `diagnose` says of the log alone, with the status of its server; None without a log."""
    report = scene.folder / "report"
    if not (report / "logs/vllm-1.log").exists():
        return None
    facts = json.loads((report / "report.json").read_text())["facts"]
    status = (facts.get("cause") or {}).get("exit_code")
    report.rename(scene.folder / "launch")
    (scene.folder / "printed.txt").rename(scene.folder / "launch.txt")
    scene.signal_after = None
    given = [str(scene.folder / "launch/logs/vllm-1.log"), "--exit-code-by-class"]
    given += ["--status", str(status)] if status else []
    return _ran(scene, _ci_doctor("diagnose", *given))._asdict()


HEAD = (
    "failure", "made by", "seen by", "on top", "another run", "code", "right", "seconds", "lines", "load",
)  # fmt: skip
ABOUT = f"""Each server fails in one way. On top: the line of its log, or else the first sentence. Another run: the advice.
Right: both and the exit code are as they were written down before the run, and so is what `diagnose` says of the log alone.
Seconds: until the verdict; vLLM itself gives up after {SERVERS_OWN_S} s. Lines: on the terminal. Load: before and after."""


def table_row(failure: Failure, row: dict[str, Any]) -> list[str]:
    """The cells of a row."""
    seen = row["seen"]
    top = (seen["top"] if failure.expected.line is not None else seen["says"]) or seen["says"]
    cells = [
        failure.name, failure.how, failure.door, top.replace(str(place.home()), "~")[:100], seen["advice"] or "–", str(seen["code"]),
        "NO" if row["problems"] else "yes", str(seen["seconds"]), str(seen["printed"]), ", ".join(map(str, row["load"])),
    ]  # fmt: skip
    return [cell.replace("|", "\\|").replace("\n", " ") for cell in cells]
