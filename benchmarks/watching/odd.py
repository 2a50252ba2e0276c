# SPDX-License-Identifier: Apache-2.0
"""Pure. Odd scripts, each written by hand: how a server can be started, its output kept and it be waited for."""

import textwrap

from benchmarks.watching.scripts import CLIENT_PY, WAIT_PY, Script

# {server} is its command line without a port, {port} the port, {python} an interpreter; {{ and }} are braces.
_UNTIL = "i=0; until curl -sf http://localhost:{port}/health > /dev/null; do i=$((i+1)); [ $i -gt 80 ] && exit 7; sleep 0.5; done\n"
_ASK = "i=0; while [ $i -lt {asks} ]; do i=$((i+1)); curl -s http://localhost:{port}/v1/x > /dev/null || true; sleep 0.5; done\n"
_PYTHON = """import subprocess, sys, threading, time, urllib.request
WORDS = {words!r}
def answers():
    try:
        return urllib.request.urlopen("http://127.0.0.1:{port}/health", timeout=2).read()
    except OSError:
        return b""
def begin():
{start}
server = begin()
end = time.monotonic() + 40
while not answers():
    if time.monotonic() > end:
        sys.exit(7)
    time.sleep(0.3)
for _ in range({asks}):
    answers()
    time.sleep(0.5)
{stop}
"""
_END = "kill $PID; wait $PID || true\n"
_LEAVE = "curl -s http://localhost:{port}/shutdown > /dev/null || true\nsleep 0.5\n"


class Odd:
    """The text of a script before the wait, behind it, and how it is run."""

    def __init__(
        self,
        start: str,
        stop: str = _LEAVE,
        wait: str = _UNTIL,
        ask: str = _ASK,
        command: tuple[str, ...] = ("bash", "job.sh"),
        files: dict[str, str] | None = None,
    ) -> None:
        self.text = start + wait + ask + stop
        self.command = command
        self.files = files or {}


_DASH = ("dash", "job.sh")
_PORT = "{server} --port {port}"
_BASH = {
    "all output through tee": Odd(
        f"set -eo pipefail\nexec > >(tee job.log) 2>&1\n{_PORT} &\nPID=$!\n", _END
    ),
    "coproc": Odd(f"coproc SERVER {{{{ {_PORT} 2>&1; }}}}\nPID=$SERVER_PID\n"),
    "trap EXIT": Odd(
        f"set -euo pipefail\ntrap 'kill $PID 2>/dev/null || true' EXIT\n{_PORT} > s.log 2>&1 &\nPID=$!\n",
        "exit 0\n",
    ),
    "nohup and disown": Odd(f"nohup {_PORT} > s.log 2>&1 & disown\n"),
    "stdbuf": Odd(f"stdbuf -oL -eL {_PORT} > s.log 2>&1 &\nPID=$!\n", _END),
    "time-out and tee": Odd(f"timeout -k 5 600 {_PORT} 2>&1 | tee s.log &\n"),
    "xargs -P": Odd("echo {port} | xargs -P 2 -I% {server} --port % > s.log 2>&1 &\n"),
    "session of its own, exec": Odd(f"setsid bash -c 'exec {_PORT} > s.log 2>&1' &\n"),
    "exec in a subshell that works first": Odd(
        "( sleep 1.3; cd .; export PORT={port}; exec {server} ) > s.log 2>&1 &\nPID=$!\n",
        _END,
    ),
    "a starter of units": Odd(f"sh ./systemd-run --unit=s {_PORT}\n"),
    "a pair of brackets with a code file": Odd(
        f"( {_PORT} > s.log 2>&1; echo $? > code ) &\n", command=_DASH
    ),
    "a pipe with a name": Odd(
        f"set -e\nrm -f pipe; mkfifo pipe\ncat pipe > s.log &\n{_PORT} > pipe 2>&1 &\nPID=$!\n",
        _END,
        command=_DASH,
    ),
    "from standard input": Odd(
        f"{_PORT} > s.log 2>&1 &\nPID=$!\n", _END, command=("sh", "-c", "bash -s < job.sh")
    ),
    "a terminal of its own": Odd(f"script -qefc '{_PORT}' s.log > /dev/null 2>&1 &\n"),
    "wait in the background": Odd(
        f"{_PORT} > s.log 2>&1 &\nPID=$!\n",
        _END,
        "( " + _UNTIL.rstrip().replace("exit 7", "exit 7") + " ) &\nwait $! || exit 7\n",
    ),
    "its log is followed": Odd(
        f"{_PORT} > s.log 2>&1 &\nPID=$!\n",
        _END,
        "timeout 40 sh -c 'tail -n +1 -F s.log 2>/dev/null | grep -m1 -q \"startup complete\"' || exit 7\n",
    ),
    "asked by ss": Odd(
        f"{_PORT} > s.log 2>&1 &\nPID=$!\n",
        _END,
        'i=0; until ss -ltn | grep -q ":{port} "; do i=$((i+1)); [ $i -gt 80 ] && exit 7; sleep 0.5; done\n',
    ),
    "a function, wait -n": Odd(
        "serve() {{ local p=$1; {server} --port $p; }}\nserve {port} >> s.log 2>&1 &\nPID=$!\n",
        "kill $PID; wait -n || true\n" + _LEAVE,
    ),
    "a wrapper that cleans up": Odd("./serve.sh {port} > s.log 2>&1 &\nPID=$!\n"),
    "a launcher with workers": Odd("{python} launcher.py {port} > s.log 2>&1 &\nPID=$!\n", _END),
    "twice forked, from dash": Odd(f"{_PORT} --daemon > s.log 2>&1\n", command=_DASH),
    "only the environment names the port": Odd(
        "export PORT={port}\n{server} > s.log 2>&1 &\nPID=$!\n", _END
    ),
    "netcat asks": Odd(
        f"{_PORT} > s.log 2>&1 &\nPID=$!\n",
        _END,
        "{python} wait.py {port} 40 || exit 7\n",
        "{python} client.py {port} {seconds}\n",
    ),
    "here-document": Odd(
        "bash <<'JOB' > s.log 2>&1 &\n" + f"exec {_PORT}\n" + "JOB\nPID=$!\n", _END
    ),
}
_MADE = {
    "make, one recipe": Odd(
        f"test:\n\t@set -e; {_PORT} > s.log 2>&1 & PID=$$!; \\\n",
        '\tkill "$$PID" || true\n',
        "\ti=0; until curl -sf http://localhost:{port}/health > /dev/null; do i=$$((i+1)); [ $$i -gt 80 ] && exit 7; sleep 0.5; done; \\\n",
        "\ti=0; while [ $$i -lt {asks} ]; do i=$$((i+1)); curl -s http://localhost:{port}/v1/x > /dev/null || true; sleep 0.5; done; \\\n",
        ("make", "-s", "test"),
    ),
    "make -j, a target each": Odd(
        f"all: serve check\nserve:\n\t-{_PORT} > s.log 2>&1\n",
        "\tcurl -s http://localhost:{port}/shutdown > /dev/null || true\n",
        "check:\n\ti=0; until curl -sf http://localhost:{port}/health > /dev/null; do i=$$((i+1)); [ $$i -gt 80 ] && exit 7; sleep 0.5; done\n",
        "\ti=0; while [ $$i -lt {asks} ]; do i=$$((i+1)); curl -s http://localhost:{port}/v1/x > /dev/null || true; sleep 0.5; done\n",
        ("make", "-s", "-j2", "all"),
    ),
}
_STARTS = {
    "Python, a shell's child": 'return subprocess.Popen(" ".join(WORDS) + " > s.log 2>&1", shell=True)',
    "Python, a session of its own": 'return subprocess.Popen(WORDS, stdout=open("s.log", "w"), stderr=-2, start_new_session=True)',
    "Python, a pipe that a thread reads": """process = subprocess.Popen(WORDS, stdout=-1, stderr=-2, text=True)
threading.Thread(target=lambda: [print(line, end="") for line in process.stdout], daemon=True).start()
return process""",
    "Python, spawned": """import os
pid = os.posix_spawnp(WORDS[0], WORDS, os.environ)
class Server:
    def terminate(self): os.kill(pid, 15)
    def wait(self): os.waitpid(pid, 0)
return Server()""",
}
_PROGRAMS = {
    "systemd-run": 'shift\nsetsid sh -c \'"$@" > s.log 2>&1 &\' sh "$@" < /dev/null\n',
    "serve.sh": "#!/bin/bash\ncleanup() {{ rm -f lock; }}\ntrap cleanup EXIT\ntouch lock\n{server} --port $1\n",
    "launcher.py": "import subprocess, sys\nworkers = [subprocess.Popen({words!r})]\n"
    "import signal\nsignal.signal(signal.SIGTERM, lambda *_: workers[0].terminate())\n"
    "sys.exit(1 if workers[0].wait() else 0)\n",
}
NAMES = (*_BASH, *_MADE, *_STARTS)


def script(name: str, port: int, server: str, python: str, fault: str = "") -> Script:
    """The script of this name; with a `fault` its server gets these words, and is asked for longer."""
    words = f"{server} --load 1 {fault}".rstrip()
    values = {"server": words, "port": port, "python": python, "asks": 60 if fault else 4}
    values |= {"words": [*words.split(), "--port", str(port)], "seconds": 30 if fault else 2}
    files = {name: text.format(**values) for name, text in _PROGRAMS.items()}
    files |= {"wait.py": WAIT_PY, "client.py": CLIENT_PY}
    if name in _STARTS:
        start = textwrap.indent(_STARTS[name], "    ")
        files["job.py"] = _PYTHON.format(
            start=start, stop="server.terminate()\nserver.wait()", **values
        )
        return Script(files, (python, "job.py"), (name,))
    odd = {**_BASH, **_MADE}[name]
    files["Makefile" if name in _MADE else "job.sh"] = odd.text.format(**values)
    return Script(files, odd.command, (name,))
