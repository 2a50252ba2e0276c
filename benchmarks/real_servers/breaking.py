# SPDX-License-Identifier: Apache-2.0
"""Acts on a folder: makes a real vLLM fail in one way, by its options, variables, files, limits, plugins or a signal."""

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from real_servers import place


class Scene:
    """One run: a folder of its own, and the server's command as a failure changes it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model = str(place.model("llama"))
        self.port = _free_port()
        self.flags: list[str] = []
        self.is_eager = True
        self.environment: dict[str, str] = {
            **place.ENVIRON,
            "VLLM_CACHE_ROOT": str(folder / "cache"),
        }
        self.before: list[str] = []
        # What ci-doctor itself is started by.
        self.around: list[str] = []
        self.program = [str(place.interpreter().with_name("vllm"))]
        self.start_timeout = "600s"
        self.ready = f"http://127.0.0.1:{self.port}/health"
        self.settings: list[str] = []
        self.requests = ("ask",)
        self.signal_after: tuple[str, signal.Signals] | None = None
        self.held = ExitStack()

    def words(self) -> list[str]:
        """The command line of the server."""
        given = ["--served-model-name", "m", "--max-model-len", str(place.CONTEXT)]
        given += ["--dtype", "bfloat16", "--port", str(self.port)]
        given += ["--enforce-eager"] * self.is_eager
        return [*self.before, *self.program, "serve", self.model, *given, *self.flags]

    def shell(self, script: str) -> None:
        """Let the server be started by `script`, which ends with `exec "$@"`."""
        self.before = ["sh", "-c", script + '\nexec "$@"', "sh"]

    def own_model(self) -> Path:
        """A copy of the model that may be broken."""
        copy = self.folder / "model"
        shutil.copytree(self.model, copy)
        self.model = str(copy)
        return copy

    def plugin(self, source: str, function: str = "register") -> Path:
        """Install a plugin of vLLM: a module with `function`, in a folder on PYTHONPATH."""
        folder = self.folder / "overlay"
        information = folder / "team_plugin-1.0.dist-info"
        information.mkdir(parents=True)
        (folder / "team_plugin.py").write_text(source)
        (information / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: team-plugin\nVersion: 1.0\n"
        )
        (information / "entry_points.txt").write_text(
            f"[vllm.general_plugins]\nteam = team_plugin:{function}\n"
        )
        self.environment["PYTHONPATH"] = str(folder)
        return folder


Prepare = Callable[[Scene], None]


def flags(*flags: str) -> Prepare:
    def prepare(scene: Scene) -> None:
        scene.flags += flags

    return prepare


def variables(**variables: str) -> Prepare:
    def prepare(scene: Scene) -> None:
        scene.environment |= variables

    return prepare


def named(model: str) -> Prepare:
    def prepare(scene: Scene) -> None:
        scene.model = model

    return prepare


def changed(file: str, change: Callable[[Path], None]) -> Prepare:
    """A copy of the model, one file of which is changed."""

    def prepare(scene: Scene) -> None:
        change(scene.own_model() / file)

    return prepare


def plugin(body: str, *, before: str = "") -> Prepare:
    """A plugin whose `register` has `body`; `before` stands at the top of its module."""

    def prepare(scene: Scene) -> None:
        source = "import multiprocessing, os, signal, threading, time\nfrom pathlib import Path\n"
        body_lines = ["NAME = multiprocessing.current_process().name", *body.splitlines()]
        lines = "\n".join(f"    {line}" for line in body_lines)
        scene.plugin(f"{source}{before}\n\ndef register():\n{lines}\n")

    return prepare


# In one process of the server, when the client asks for it.
_WHEN_ASKED = """\
def act():
    while not Path({flag!r}).exists():
        time.sleep(0.05)
    {act}
if {process!r} in NAME:
    threading.Thread(target=act, daemon=True).start()"""


def under_load(process: str, act: str) -> Prepare:
    """A plugin does `act` in one process of the server when the client asks for it."""

    def prepare(scene: Scene) -> None:
        flag = str(scene.folder / "now")
        plugin(_WHEN_ASKED.format(flag=flag, act=act, process=process))(scene)
        scene.requests = ("load", flag)

    return prepare


def watched(scene: Scene) -> None:
    """A probe asks for a token every ten seconds."""
    asked = '{ model = "m", prompt = "the", max_tokens = 1 }'
    url = f"http://127.0.0.1:{scene.port}/v1/completions"
    scene.settings.append(f'liveness = {{ http = "{url}", send = {asked} }}')


def nothing(scene: Scene) -> None:
    """The server is good."""


def truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def pointer(file: Path) -> None:
    file.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4461248\n")


def edit(**values: Any) -> Callable[[Path], None]:
    def change(file: Path) -> None:
        held = json.loads(file.read_text())
        file.write_text(json.dumps(held | values))

    return change


def one_token_more(file: Path) -> None:
    held = json.loads(file.read_text())
    token = {
        "special": False,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
    }
    held["added_tokens"].append(token | {"id": 2048, "content": "small"})
    file.write_text(json.dumps(held))


def taken_port(scene: Scene) -> None:
    listener = scene.held.enter_context(closing(socket.socket()))
    listener.bind(("0.0.0.0", scene.port))
    listener.listen()
    scene.held.callback(end, sleeper(listener))
    listener.close()


def sleeper(listener: socket.socket) -> subprocess.Popen[bytes]:
    """A process of another session, and so of another job, that holds `listener`."""
    os.set_inheritable(listener.fileno(), True)
    program = [sys.executable, "-c", "import time; time.sleep(3600)"]
    return subprocess.Popen(program, pass_fds=[listener.fileno()], start_new_session=True)


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def cgroup(kind: str, file: str, value: str, *, is_container: bool = False) -> Prepare:
    """A control group of version 1 with one limit, for the server alone or for ci-doctor and all below it."""

    def prepare(scene: Scene) -> None:
        group = Path("/sys/fs/cgroup") / kind / f"ci-doctor-{os.getpid()}"
        group.mkdir()
        scene.held.callback(remove_group, group)
        (group / file).write_text(value)
        scene.shell(f"echo $$ > {group}/cgroup.procs")
        if is_container:
            scene.around, scene.before = scene.before, []

    return prepare


def remove_group(group: Path) -> None:
    for _ in range(50):
        try:
            group.rmdir()
        except OSError:
            time.sleep(0.1)
        else:
            return


def mounted(options: str, where: str = "", *names: str, fill: bool = False) -> Prepare:
    """In a mount namespace of its own: a file system in memory, at `where` or in the folder; `names` are set to it."""

    def prepare(scene: Scene) -> None:
        folder = Path(where or scene.folder / "small")
        folder.mkdir(exist_ok=True)
        script = f"mount -t tmpfs -o {options} tmpfs {folder}"
        if fill:
            script += f"; head -c 1G /dev/zero > {folder}/full 2>/dev/null"
        scene.shell(script)
        scene.before = ["unshare", "-m", *scene.before]
        scene.environment |= dict.fromkeys(names, str(folder))

    return prepare


def compiled(scene: Scene) -> None:
    """With torch.compile, which writes a cache."""
    scene.is_eager = False


def limited(*options: str) -> Prepare:
    def prepare(scene: Scene) -> None:
        scene.before = ["prlimit", *options]

    return prepare


def as_nobody(scene: Scene) -> None:
    """Another user, who may not read the model's folder."""
    model = scene.own_model()
    model.chmod(0o700)
    home = scene.folder / "home"
    home.mkdir()
    shutil.chown(home, 65534, 65534)
    scene.environment["HOME"] = str(home)
    scene.before = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def hub_cache(scene: Scene) -> None:
    """The model under a name in a cache of the hub, and somebody holds the lock that vLLM takes."""
    snapshot = (
        scene.folder
        / "hub/hub/models--team--tiny/snapshots/0123456789012345678901234567890123456789"
    )
    shutil.copytree(scene.model, snapshot)
    refs = snapshot.parent.parent / "refs"
    refs.mkdir()
    (refs / "main").write_text(snapshot.name)
    scene.model = "team/tiny"
    locks = scene.folder / "locks"
    locks.mkdir()
    scene.environment |= {"HF_HOME": str(scene.folder / "hub"), "TMPDIR": str(locks)}

    name = hashlib.sha256(b"team-tiny").hexdigest() + "team-tiny.lock"
    program = "import fcntl, time; file = open({!r}, 'w'); fcntl.flock(file, fcntl.LOCK_EX); print(flush=True); time.sleep(3600)"
    holder = subprocess.Popen(
        [sys.executable, "-c", program.format(str(locks / name))], stdout=subprocess.PIPE
    )
    holder.stdout.readline()
    scene.held.callback(end, holder)
    scene.start_timeout = "90s"


def stale_socket(scene: Scene) -> None:
    path = scene.folder / "s.sock"
    with closing(socket.socket(socket.AF_UNIX)) as left:
        left.bind(str(path))
    scene.flags += ["--uds", str(path)]
    scene.ready = f"unix:{path}"


def shadowing(scene: Scene) -> None:
    """A file of the team with the name of a package."""
    folder = scene.folder / "overlay"
    folder.mkdir()
    (folder / "tokenizers.py").write_text("def count_tokens(text):\n    return len(text.split())\n")
    scene.environment["PYTHONPATH"] = str(folder)


def stopped_after(pattern: str, name: signal.Signals) -> Prepare:
    """The process whose command line or title holds `pattern` gets a signal in the start."""

    def prepare(scene: Scene) -> None:
        scene.signal_after = (pattern, name)

    return prepare


def racing(scene: Scene) -> None:
    """A start script that warms up a package in a thread, as preloading scripts do."""
    script = scene.folder / "serve.py"
    script.write_text(
        "import sys, threading\n"
        "thread = threading.Thread(target=__import__, args=('transformers',))\n"
        "thread.start()\n"
        "from transformers import GenerationConfig\n"
        "print('both', GenerationConfig.__name__)\n"
        "thread.join()\n"
        "from vllm.entrypoints.cli.main import main\n"
        "main()\n"
    )
    scene.program = [str(place.interpreter()), str(script)]


def both(*steps: Prepare) -> Prepare:
    def prepare(scene: Scene) -> None:
        for step in steps:
            step(scene)

    return prepare


def asks(*words: str) -> Prepare:
    def prepare(scene: Scene) -> None:
        scene.requests = words

    return prepare


def timeout(text: str) -> Prepare:
    def prepare(scene: Scene) -> None:
        scene.start_timeout = text

    return prepare


def _free_port() -> int:
    with closing(socket.socket()) as asked:
        asked.bind(("", 0))
        return asked.getsockname()[1]
