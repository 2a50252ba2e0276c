# SPDX-License-Identifier: Apache-2.0
"""Pure. Scripts of many shapes by seed: how a server is started, waited for, used and stopped."""

import random
from typing import NamedTuple


class Script(NamedTuple):
    """Its text by file name, the command that runs it, and the parts it is made of."""

    files: dict[str, str]
    command: tuple[str, ...]
    parts: tuple[str, ...]


STARTS = {
    "file": "{server} > server.log 2>&1 &\nPID=$!",
    "append": "{server} >> logs/all.log 2>&1 &\nPID=$!",
    "tee": "{server} 2>&1 | tee server.log &\nPID=$!",
    "stdout": "{server} &\nPID=$!",
    "null": "{server} > /dev/null 2>&1 &\nPID=$!",
    "nohup": "nohup {server} > server.log 2>&1 &\nPID=$!",
    "setsid": "setsid {server} > server.log 2>&1 &\nPID=$!",
    "subshell": "( cd . ; {server} > server.log 2>&1 ) &\nPID=$!",
    "daemon": "{server} --daemon > server.log 2>&1\nPID=",
    "timeout": "timeout 600 {server} > server.log 2>&1 &\nPID=$!",
    "pipe": "{server} 2>&1 | cat > /dev/null &\nPID=$!",
    "second-try": "( {server} --before > first.log 2>&1 || sleep 2; exec {server} > server.log 2>&1 ) &\nPID=$!",
    "container": "sh ./docker run -d -p {port}:{port} image > id\nPID=$(cat pid)",
    "function": "start() {{ {server} > server.log 2>&1; }}\nstart &\nPID=$!",
}
WAITS = {
    "curl": "i=0; until curl -sf http://localhost:{port}/health > /dev/null; do i=$((i+1)); [ $i -gt {tries} ] && exit 7; sleep 0.5; done",
    "curl-break": "for i in $(seq {tries}); do\n  if curl -s -o /dev/null http://127.0.0.1:{port}/v1/models; then break; fi\n  sleep 0.5\ndone",
    "timeout": "timeout {seconds} sh -c 'until curl -sf http://localhost:{port}/health >/dev/null; do sleep 0.4; done'",
    "wget": "i=0; until wget -qO- http://127.0.0.1:{port}/ > /dev/null; do i=$((i+1)); [ $i -gt {tries} ] && exit 7; sleep 0.5; done",
    "grep": "i=0; until grep -q 'startup complete' server.log; do i=$((i+1)); [ $i -gt {tries} ] && exit 7; sleep 0.5; done",
    "python": "{python} wait.py {port} {seconds}",
    "python-inline": "i=0; until {python} -c \"import urllib.request as u; u.urlopen('http://127.0.0.1:{port}/health', timeout=2)\" 2>/dev/null; do i=$((i+1)); [ $i -gt {tries} ] && exit 7; sleep 0.3; done",
    "tcp": "i=0; until (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null; do i=$((i+1)); [ $i -gt {tries} ] && exit 7; sleep 0.5; done",
    "retry": "curl -s --retry {tries} --retry-delay 1 --retry-connrefused http://localhost:{port}/health > /dev/null",
}
BODIES = {
    "requests": "for n in 1 2 3 4 5; do curl -s http://localhost:{port}/v1/completions > /dev/null; done",
    "client": "{python} client.py {port} 1.5",
    "client-beside": "{python} client.py {port} 1.5 &\nCLIENT=$!\nwait $CLIENT",
    "sleep": "sleep 1.5",
    "short": "for n in $(seq 300); do /bin/true; done",
    "failing-beside": "{python} -c 'import sys,time; time.sleep(0.6); sys.exit(3)' &\nfor n in 1 2 3; do curl -s http://localhost:{port}/x > /dev/null; sleep 0.5; done",
    "failing": "{python} -c 'import sys; sys.exit(3)' || echo tolerated\nsleep 0.5",
    "build": "for n in $(seq 30); do {python} -S -c pass; done",
}
STOPS = {
    "kill-wait": "kill $PID; wait $PID || true",
    "kill-sleep": "kill $PID; sleep 1.5",
    "kill-9": "kill -9 $PID; sleep 1",
    "until-down": "kill $PID; while curl -s http://localhost:{port}/ > /dev/null; do sleep 0.2; done",
    "check-down": "kill $PID; sleep 1; curl -s http://localhost:{port}/ > /dev/null || echo 'it is down'",
    "shutdown": "curl -s http://localhost:{port}/shutdown > /dev/null; wait $PID || true",
    "again": "kill $PID; sleep 0.3\n{again} > again.log 2>&1 &\nPID=$!\nuntil curl -sf http://localhost:{port}/health > /dev/null; do sleep 0.3; done\nkill $PID; wait $PID || true",
    "again-9": "kill -9 $PID\n{again} --load 5 > again.log 2>&1 &\nPID=$!\nuntil curl -sf http://localhost:{port}/health > /dev/null; do sleep 0.3; done\nkill $PID; wait $PID || true",
    "poller": "( while true; do curl -s http://localhost:{port}/metrics > /dev/null; sleep 0.3; done ) &\nPOLLER=$!\nsleep 0.5\nkill $PID; sleep 1.5; kill $POLLER",
    "restart": "( while true; do curl -s http://localhost:{port}/ > /dev/null; sleep 0.3; done ) &\nLOAD=$!\nkill -9 $PID\n{again} --load 2 > again.log 2>&1 &\nPID=$!\nsleep 4\nkill $LOAD; kill $PID; wait",
    "stays-down": "kill -9 $PID; for n in 1 2 3 4 5 6 7; do curl -s http://localhost:{port}/ > /dev/null && exit 9; sleep 0.5; done",
    "left": "true",
}
_BY_PID = {"until-down", "restart", "kill-wait", "shutdown"}
WAIT_PY = """import sys, time, urllib.request
end = time.time() + float(sys.argv[2])
while time.time() < end:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/health")
        sys.exit(0)
    except OSError:
        time.sleep(0.3)
sys.exit(7)
"""
CLIENT_PY = """import sys, time, urllib.request
end = time.time() + float(sys.argv[2])
while time.time() < end:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/v1/x", timeout=2).read()
    except OSError:
        time.sleep(0.2)
    time.sleep(0.02)
"""
# A stand-in: its containers are no children of who asks for them.
DOCKER = """rm -f pid
setsid sh -c 'echo $$ > pid; exec {server}' > /dev/null 2>&1 &
until [ -s pid ]; do sleep 0.05; done
echo 0123456789ab
"""
ENDS_PY = {
    "terminate": "server.terminate()\nserver.wait()\n",
    "kill": "server.kill()\ntime.sleep(5)\n",
    "shutdown": "urllib.request.urlopen('http://127.0.0.1:{port}/shutdown').read()\nserver.wait()\ntime.sleep(5)\n",
}
JOB_PY = """import subprocess, sys, time, urllib.request
log = open("server.log", "w")
server = subprocess.Popen({server!r}, stdout={stdout}, stderr=subprocess.STDOUT)
end = time.time() + {seconds}
while True:
    try:
        urllib.request.urlopen("http://127.0.0.1:{port}/health"{timeout})
        break
    except OSError:
        if time.time() > end:
            sys.exit(7)
        time.sleep(0.3)
for n in range({requests}):
    try:
        urllib.request.urlopen("http://127.0.0.1:{port}/v1/x", timeout=2).read()
    except OSError:
        pass
    time.sleep(0.1)
"""


def script(
    seed: int, port: int, server: str, python: str, fault: str = "", seconds: float = 20
) -> Script:
    """The script of this seed; with a `fault` its server gets these words, and it waits `seconds`."""
    chance = random.Random(seed)
    flavour = chance.choice(["bash", "bash", "bash-e", "dash", "dash-e", "python", "make"])
    words = f"{server} {chance.choice(['{port}', '--port {port}'])}".format(port=port)
    words += f" --load {chance.choice([0.1, 0.5, 1.5])} {fault}"
    if not fault and chance.random() < 0.4:
        words += f" --on-term {chance.choice([0, 1, 143])}"
    files = {"wait.py": WAIT_PY, "client.py": CLIENT_PY, "logs/.keep": ""}
    if flavour == "python":
        timeout = chance.choice(["", ", timeout=2"])
        stdout = chance.choice(["log", "subprocess.DEVNULL", "None"])
        files["job.py"] = JOB_PY.format(
            server=words.split(), stdout=stdout, seconds=seconds, port=port, timeout=timeout,
            requests=200 if fault else 10,
        )  # fmt: skip
        ending = chance.choice(list(ENDS_PY))
        files["job.py"] += ENDS_PY[ending].format(port=port)
        return Script(files, (python, "job.py"), (flavour, f"timeout{timeout}", stdout, ending))
    start, wait, body, stop = _parts(chance, flavour, fault, seconds)
    values = {"server": words, "again": f"{server} {port}", "port": port, "python": python}
    values |= {"tries": str(int(seconds * 2)), "seconds": str(int(seconds))}
    text = "\n".join(
        part.format(**values)
        for part in (STARTS[start], WAITS[wait], BODIES.get(body, body), STOPS[stop])
    )
    parts = (flavour, start, wait, body if not fault else "requests", stop)
    if start == "container":
        files["docker"] = DOCKER.format(server=words)
    if flavour == "make":
        recipe = "\n".join("\t" + line for line in text.replace("$", "$$").splitlines())
        files["Makefile"] = f".ONESHELL:\ntest:\n{recipe}\n"
        return Script(files, ("make", "-s", "test"), parts)
    shell = flavour.partition("-")[0]
    head = "set -e\n" if flavour.endswith("-e") else ""
    files["job.sh"] = head + text + "\n"
    return Script(files, (shell, "job.sh"), parts)


def _parts(
    chance: random.Random, flavour: str, fault: str, seconds: float
) -> tuple[str, str, str, str]:
    """The names of the parts of a shell script, which fit each other."""
    starts = [name for name in STARTS if not (name in {"tee", "second-try"} and fault)]
    start, wait = chance.choice(starts), chance.choice(list(WAITS))
    while flavour in {"dash", "dash-e", "make"} and wait == "tcp":
        wait = chance.choice(list(WAITS))
    while wait == "grep" and start in {"stdout", "null", "append", "pipe", "container"}:
        start = chance.choice(starts)
    body, stop = chance.choice(list(BODIES)), chance.choice(list(STOPS))
    if fault:
        request = "curl -s http://localhost:{port}/v1/x > /dev/null || true; sleep 0.5"
        return start, wait, f"for n in $(seq {int(seconds * 2)}); do {request}; done", "left"
    if start == "daemon":
        stop = chance.choice(["shutdown", "left"])
    # Their $PID is not the server's.
    is_other = start in {"tee", "pipe", "subshell", "function", "timeout", "setsid"}
    if is_other and ("again" in stop or stop == "stays-down"):
        stop = "kill-sleep"
    if start in {"tee", "pipe", "subshell", "function"} and stop in _BY_PID:
        stop = "left"
    return start, wait, body, stop
