# SPDX-License-Identifier: Apache-2.0
"""Real servers, and small programs on real libraries, with what each is known to leave behind."""

from dataclasses import dataclass
from pathlib import Path

SNIPPETS = Path(__file__).parent / "snippets.py"
TCP = "tcp://127.0.0.1:{port}"


@dataclass(frozen=True)
class Program:
    """`words` of the command, `{work}` a folder of its own and `{bin}` that of the installed tools.

    `needs` are programs that must be installed. `may_lose`: a helper that is killed is no death.
    """

    name: str
    words: tuple[str, ...]
    ready: str = TCP
    needs: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    may_lose: bool = False


def snippet(name: str, what: str, *, may_lose: bool = False) -> Program:
    """A program of snippets.py, run by the interpreter with the installed libraries."""
    words = ("{bin}/python", str(SNIPPETS), what, "{port}", "{work}")
    return Program(name, words, may_lose=may_lose)


APP = "leak_app:app"
PROGRAMS = (
    Program("uvicorn, 1 worker", ("{bin}/uvicorn", "--app-dir", "{apps}", "--port", "{port}", APP)),
    Program(
        "uvicorn, 2 workers",
        ("{bin}/uvicorn", "--app-dir", "{apps}", "--port", "{port}", "--workers", "2", APP),
    ),
    Program(
        "uvicorn on a unix socket",
        ("{bin}/uvicorn", "--app-dir", "{apps}", "--uds", "{work}/app.sock", APP),
        ready="exec:test -S {work}/app.sock",
    ),
    Program(
        "gunicorn, 2 workers",
        (
            "{bin}/gunicorn",
            "--chdir",
            "{apps}",
            "-b",
            "127.0.0.1:{port}",
            "-w",
            "2",
            "leak_app:wsgi",
        ),
    ),
    Program(
        "gunicorn on a unix socket",
        ("{bin}/gunicorn", "--chdir", "{apps}", "-b", "unix:{work}/g.sock", "leak_app:wsgi"),
        ready="exec:test -S {work}/g.sock",
    ),
    Program(
        "hypercorn, 2 workers",
        ("{bin}/hypercorn", "-b", "127.0.0.1:{port}", "-w", "2", "{apps}/leak_app.py:app"),
    ),
    Program(
        "waitress",
        ("{bin}/waitress-serve", "--listen", "127.0.0.1:{port}", "leak_app:wsgi"),
        env=(("PYTHONPATH", "{apps}"),),
    ),
    Program(
        "redis-server with unixsocket",
        (
            "redis-server",
            "--port",
            "{port}",
            "--unixsocket",
            "{work}/redis.sock",
            "--dir",
            "{work}",
        ),
        needs=("redis-server",),
    ),
    Program(
        "memcached on a unix socket",
        ("memcached", "-u", "root", "-s", "{work}/memcached.sock"),
        ready="exec:test -S {work}/memcached.sock",
        needs=("memcached",),
    ),
    Program(
        "nginx",
        ("nginx", "-p", "{work}", "-c", "{work}/nginx.conf", "-g", "daemon off;"),
        needs=("nginx",),
    ),
    Program(
        "postgres",
        ("sh", "{work}/postgres.sh", "{port}", "{work}"),
        needs=("postgres", "initdb", "runuser"),
    ),
    Program(
        "ssh-agent in the foreground",
        ("ssh-agent", "-D"),
        ready="exec:true",
        needs=("ssh-agent",),
    ),
    Program(
        "tmux server",
        ("sh", "-c", "tmux -S {work}/tmux.sock new -d 'sleep 1000'; exec sleep 1000"),
        ready="exec:test -S {work}/tmux.sock",
        needs=("tmux",),
    ),
    Program(
        "socat on a unix socket",
        ("socat", "UNIX-LISTEN:{work}/s.sock,fork", "SYSTEM:cat"),
        ready="exec:test -S {work}/s.sock",
        needs=("socat",),
    ),
    snippet("SharedMemory server", "segment"),
    snippet("SharedMemory, tracker killed", "untracked", may_lose=True),
    snippet("SharedMemory in 2 workers", "workers"),
    snippet("multiprocessing.Manager", "manager"),
    snippet("SharedMemoryManager", "memory-manager"),
    snippet("ProcessPoolExecutor, forkserver", "forkserver"),
    snippet("joblib/loky with memmaps", "loky"),
    snippet("posix_ipc, as torch's shm", "posix-ipc"),
    snippet("sysv_ipc", "sysv-ipc"),
    snippet("tempfile, kept open", "open-files"),
    snippet("tempfile, closed", "closed-files"),
    snippet("zmq on ipc://", "zmq"),
    snippet("shell that ignores signals", "shell"),
)

PACKAGES = (
    "uvicorn==0.30.6",
    "gunicorn==23.0.0",
    "hypercorn==0.17.3",
    "waitress==3.0.0",
    "joblib==1.4.2",
    "numpy==1.26.4",
    "posix_ipc==1.1.1",
    "sysv_ipc==1.1.0",
    "pyzmq==26.2.0",
)
