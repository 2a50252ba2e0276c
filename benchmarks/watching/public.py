# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: public CI scripts as they are, with a toy server in the place of each program.

They are cloned into a temporary folder, or read from `--mirrors FOLDER` with bare `OWNER+NAME/repo`. Each run has
network and pid namespaces of its own, because their ports are fixed, and because all that it leaves is to end.
"""

import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

SERVER = Path(__file__).parents[2] / "tests/support/programs/toy_server.py"
# What the scripts start, by name: a server whose port decides on its fault, a client, or what a machine with GPUs has.
_SERVE = """port=8000; host=127.0.0.1; last=
for word in "$@"; do case "$last" in --port) port=$word;; --host) host=$word;; esac; last=$word; done
eval "fault=\\${{FAULT_$port:-}}"
exec {python} {server} --port $port --host $host --load 2 $fault
"""
PROGRAMS = {
    "vllm": '#!/bin/sh\n[ "$1" = bench ] && exec {python} {client} "$@"\n' + _SERVE,
    "lmcache": "#!/bin/sh\n" + _SERVE,
    "sglang": "#!/bin/sh\n" + _SERVE,
    "python3": """#!/bin/sh
case "$*" in
  *quart*|*"import main"*|*"import vllm"*) exit 0 ;;
  "-c "*|-) PYTHONPATH={stubs} exec {python} "$@" ;;
  *launch_server*|*blend_server*) exec sglang "$@" ;;
  *proxy*) exec {python} {server} --port ${{PROXY_PORT:-${{SERVICE_PORT:-8000}}}} ;;
  *eval*|*test*|*bench*) exec {python} {client} "$@" ;;
esac
exec {python} "$@"
""",
    "python": '#!/bin/sh\nexec python3 "$@"\n',
    "uv": "#!/bin/sh\neval sleep ${{FAULT_UV:-0.1}}\n",
    "nvidia-smi": '#!/bin/sh\ncase "$*" in *memory.total*used*) echo 0, 80000, 0, 80000 ;; *) echo 80000 ;; esac\n',
    "ibv_devinfo": "#!/bin/sh\necho '  state: PORT_ACTIVE (4)'\n",
}
# It asks the port that its words name for a minute, as often as it is refused.
CLIENT = """import os, re, signal, sys, time, urllib.request
words = " ".join(sys.argv)
port = (re.findall(r"--port (\\d+)", words) or re.findall(r":(\\d{4,5})", words) or [os.environ["CLIENT_PORT"]])[0]
end, good, needed = time.time() + 60, 0, 100
while time.time() < end and good < needed:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/v1", timeout=2).read()
        good += 1
    except OSError:
        pass
    if good == 20 and "FAULT_CLIENT" in os.environ:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.1)
for word in sys.argv:
    if word.endswith(".json") and good >= needed:
        folder = sys.argv[sys.argv.index("--result-dir") + 1] if "--result-dir" in sys.argv else ""
        open(os.path.join(folder, word), "w").write('{"accuracy": 0.9, "total_input_tokens": 500000, "completed": 50, "total_token_throughput": 9}')
sys.exit(0 if good >= needed else 1)
"""
# What test_utils.py imports and this job does not need is a mock.
_POPEN = """import importlib.util, os, signal, subprocess, sys
from unittest.mock import MagicMock
class Mocks:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("aiohttp", "numpy", "torch", "PIL", "sglang"):
            return importlib.util.spec_from_loader(name, self)
    def create_module(self, spec):
        mock = MagicMock(name=spec.name)
        mock.__path__ = []
        return mock
    def exec_module(self, module):
        pass
sys.meta_path.insert(0, Mocks())
spec = importlib.util.spec_from_file_location("test_utils", "python/sglang/test/test_utils.py")
utils = importlib.util.module_from_spec(spec)
spec.loader.exec_module(utils)
utils.kill_process_tree = lambda pid, **_: os.kill(pid, signal.SIGKILL)
process = utils.popen_launch_server("m", "http://127.0.0.1:21000", 600, device="cuda")
code = subprocess.call(["python3", "-m", "bench", "--port", "21000"])
utils.kill_process_tree(process.pid)
sys.exit(code)
"""


class Public(NamedTuple):
    """A script of a public repository: what is fetched, the command, the port of its first server, its own time-out."""

    name: str
    repository: str
    paths: tuple[str, ...]
    command: str
    port: int
    own_limit_s: int


class Fault(NamedTuple):
    """The words of the server at the port, variables, what goes before the script, and what to expect of a report."""

    server: str = ""
    variables: tuple[tuple[str, str], ...] = ()
    before: str = ""
    kills: str = ""
    # Each of `names` stands in what the watch says; one of `shows` is enough for the output of any other tool.
    names: tuple[str, ...] = ()
    shows: tuple[str, ...] = ()


VLLM = "vllm-project/vllm"
LMCACHE = "LMCache/LMCache"
EPLB = ".buildkite/scripts/scheduled_integration_test/deepseek_v2_lite_ep_eplb.sh"
DISAGGREGATED = "examples/online_serving/disaggregated_prefill.sh"
LIBRARY = "benchmarks/benchmark_lib.sh"
SGLANG_SERVERS = "scripts/ci/cuda/ci_start_disaggregation_servers.sh"
K3 = ".buildkite/k3_tests"
HELPERS = f"{K3}/common_scripts/helpers.sh"
MULTIPROCESS = tuple(
    f"{K3}/multiprocess/scripts/{name}.sh"
    for name in ("run-single-test", "launch-processes", "wait-for-servers", "run-vllm-bench", "cleanup")
)  # fmt: skip
BLEND = f"{K3}/blend/scripts/run-blend-test.sh"
SETUP = ".buildkite/k3_harness/setup-env.sh"
PUBLIC = (
    Public("vLLM, expert parallel", VLLM, (EPLB,), f"bash {EPLB} 0.25 5 8010", 8010, 600),
    Public(
        "vLLM, disaggregated prefill",
        VLLM,
        (DISAGGREGATED,),
        f"bash {DISAGGREGATED}",
        8100,
        1200,
    ),
    Public(
        "InferenceX, wait_for_server_ready",
        "SemiAnalysisAI/InferenceX",
        (LIBRARY,),
        f"bash -c 'source {LIBRARY}; vllm serve m --port 8888 > server.log 2>&1 & PID=$!; wait_for_server_ready "
        "--port 8888 --server-log server.log --server-pid $PID || exit 1; python3 bench.py --port 8888'",
        8888,
        0,
    ),
    Public(
        "SGLang, disaggregation servers",
        "sgl-project/sglang",
        (SGLANG_SERVERS,),
        f"bash -c 'DISAGG_READY_FILE=ready bash {SGLANG_SERVERS} > servers.log 2>&1 & i=0; until [ -f ready ]; do "
        "i=$((i+1)); [ $i -gt 300 ] && exit 1; sleep 1; done; python3 bench.py --port 30001'",
        30001,
        300,
    ),
    Public(
        "SGLang, popen_launch_server",
        "sgl-project/sglang",
        ("python/sglang/test/test_utils.py",),
        f"{sys.executable} job.py",
        21000,
        600,
    ),
    Public(
        "LMCache, run-single-test.sh vllm_bench",
        LMCACHE,
        (HELPERS, *MULTIPROCESS),
        f"bash {MULTIPROCESS[0]} vllm_bench",
        8000,
        300,
    ),
    Public(
        "LMCache, run-blend-test.sh",
        LMCACHE,
        (HELPERS, BLEND),
        f"bash {BLEND}",
        8100,
        400,
    ),
    Public("LMCache, setup-env.sh", LMCACHE, (HELPERS, SETUP), f"bash {SETUP}", 0, 0),
)
_WORDS = "device-side assert"
_KILLED = ("SIGKILL", "Killed", "signal 9")
_HANGS = ("toy_server", "not ready", "hangs", "imed out")
FAULTS = {
    "none": Fault(),
    "death before ready": Fault(
        "--before", names=("before it was ready: exit code 1", _WORDS), shows=(_WORDS,)
    ),
    "end with code 0 before ready": Fault(
        "--before --code 0", names=("before it was ready: exit code 0",), shows=("code 0",)
    ),
    "death under load": Fault(
        "--answers 30", names=("while it was in use: exit code 1", _WORDS), shows=(_WORDS,)
    ),
    "killed under load": Fault(
        "--answers 30 --signal 9",
        names=("while it was in use: killed by SIGKILL",),
        shows=_KILLED,
    ),
    "hang before ready": Fault(
        "--load 100000", names=("nothing has been done", "toy_server.py"), shows=_HANGS
    ),
    "hang under load": Fault(
        "--answers 30 --hang", names=("nothing has been done", "toy_server.py"), shows=_HANGS
    ),
    "port owned by another": Fault(
        before="{owner} & until curl -s 127.0.0.1:{port} > owned; do sleep 0.1; done; ",
        names=("Address already in use",),
        shows=("Address already in use", "EADDRINUSE", "is owned by"),
    ),
    "client killed": Fault(variables=(("FAULT_CLIENT", "1"),), names=("SIGKILL",), shows=_KILLED),
    "script killed, SIGTERM": Fault(
        kills="TERM", names=("SIGTERM",), shows=("SIGTERM", "Terminated")
    ),
    "script killed, SIGKILL": Fault(kills="KILL", names=("SIGKILL",), shows=_KILLED),
}
# No server is started: its programs hang, or it is killed.
_OF_SETUP = ("none", "hang before ready", "script killed, SIGTERM", "script killed, SIGKILL")
# Its client is two requests to its proxy, and it has ended before anybody could kill it.
_OF_TWO_REQUESTS = tuple(
    name for name in FAULTS if not any(word in name for word in ("load", "client", "script"))
)


class Ran(NamedTuple):
    """One run: the status, None if the limit came first; the seconds; how many processes it left; what was written."""

    status: int | None
    seconds: float
    left: int
    output: str


def faults_of(script: Public) -> tuple[str, ...]:
    if script.paths == (DISAGGREGATED,):
        return _OF_TWO_REQUESTS
    if BLEND in script.paths:  # it looks for a free port itself
        return tuple(name for name in FAULTS if "owned" not in name)
    return tuple(FAULTS) if script.port else _OF_SETUP


def names_of(script: Public, fault: Fault) -> tuple[str, ...]:
    """What is to be named; of a script without a server its program that hangs."""
    return (
        fault.names if script.port else tuple("sleep" if "toy" in it else it for it in fault.names)
    )


def fetch(script: Public, folder: Path, mirrors: Path | None) -> str:
    """Put the files of a script where they lie in its repository; which one: a mirror may be a fork's."""
    bare, repository = folder / ".fetched", script.repository
    if mirrors is None:
        url = f"https://github.com/{script.repository}"
        subprocess.run(["git", "clone", "-q", "--depth", "1", "--bare", url, bare], check=True)
    else:
        names = sorted(mirrors.glob(f"*+{script.repository.partition('/')[2]}/repo"))
        bare = next(name for name in names if _has(name, script.paths[0]))
        repository = bare.parent.name.replace("+", "/")
    for path in script.paths:
        content = subprocess.run(
            ["git", "-C", bare, "show", f"HEAD:{path}"], check=True, capture_output=True
        ).stdout
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
        (folder / path).chmod(0o755)
    (folder / "job.py").write_text(_POPEN)
    return repository


def _has(bare: Path, path: str) -> bool:
    return subprocess.run(["git", "-C", bare, "cat-file", "-e", f"HEAD:{path}"], stderr=subprocess.DEVNULL, check=False).returncode == 0  # fmt: skip


def prepare(folder: Path) -> Path:
    """The folder of the programs."""
    programs = folder / "programs" / "bin"
    programs.mkdir(parents=True)
    client = programs / "client.py"
    client.write_text(CLIENT)
    stubs = folder / "stubs"
    stubs.mkdir()
    (stubs / "torch.py").write_text("class version:\n    cuda = '13.0'\n")
    for name, text in PROGRAMS.items():
        (programs / name).write_text(
            text.format(python=sys.executable, server=SERVER, client=client, stubs=stubs)
        )
        (programs / name).chmod(0o755)
    return programs


def run(
    script: Public, fault: Fault, before: str, folder: Path, programs: Path, limit_s: float
) -> Ran:
    """The script with a fault, behind the words `before`, in namespaces of its own."""
    environment = {
        **os.environ,
        "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        f"FAULT_{script.port}": fault.server,
        "FAULT_UV": "100000" if fault.server.startswith("--load") or fault.kills else "0.1",
        "CLIENT_PORT": str(script.port),
        "OUT_DIR": str(folder / "out"),
        "BUILDKITE_BUILD_ID": f"{folder.name}",
        "RESULTS_DIR": str(folder / "results"),
        "DEFAULT_VENV_DIR": str(programs.parent),
        "TEST_VENV_DIR": str(programs.parent),
        "LD_LIBRARY_PATH": "",
        **dict(fault.variables),
    }
    # The shell of the kill has its number: what is told to end is the script and not what stands before it.
    inner = f"bash -c {shlex.quote(f'echo $$ > script.pid; exec {script.command}')}"
    owner = f"{sys.executable} {programs / 'owner.py'} {script.port}"
    (programs / "owner.py").write_text(_OWNER)
    (folder / "script.pid").unlink(missing_ok=True)
    wait = "until [ -s script.pid ]; do sleep 0.2; done; sleep 8"
    kill = f"({wait}; kill -{fault.kills} $(cat script.pid)) & " if fault.kills else ""
    pattern = SERVER.name.replace("r.", "[r].")  # which is not in its own command line
    text = (
        f"ip link set lo up; {fault.before.format(owner=owner, port=script.port)}{kill}{before} {inner} > output 2>&1; status=$?; "
        f"sleep 1; pgrep -f {pattern} | wc -l > servers; exit $status"
    )
    begin = time.monotonic()
    process = subprocess.Popen(
        ["unshare", "-rnp", "--fork", "--kill-child", "--mount-proc", "bash", "-c", text],
        cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=(folder / "stderr").open("wb"),
    )  # fmt: skip
    status: int | None = None
    left = 0
    try:
        status = process.wait(limit_s)
        left = int((folder / "servers").read_text())
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pattern in (f"build_{folder.name}*", f"lmcache_*_{folder.name}*"):
        for path in Path("/tmp").glob(pattern):
            path.unlink() if path.is_file() else shutil.rmtree(path)
    seconds = time.monotonic() - begin - (1 if status is not None else 0)
    return Ran(status, seconds, left, (folder / "output").read_text(errors="replace"))


# Another service at the port of the server, which knows none of its paths.
_OWNER = """import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def do_GET(self): self.send_error(404)
http.server.ThreadingHTTPServer(("", int(sys.argv[1])), Handler).serve_forever()
"""
