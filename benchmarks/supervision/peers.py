# SPDX-License-Identifier: Apache-2.0
"""Acts on a folder outside the repository: installs the peers at pinned versions, and knows their command lines."""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from supervision.scene import PROGRAMS, Scene

PYPI = {"mirakuru": "3.1.0", "honcho": "2.0.0"}
# start-server-and-test 3 asks for Node 22, which few agents have.
NPM = {"wait-on": "9.5.1", "start-server-and-test": "2.1.5"}
CURL_TIMEOUT_S = 3  # real jobs write 180, 400 or 1800 here


class Peers(NamedTuple):
    """Where the peers are, by name, and why the others are not."""

    folder: Path
    missing: Mapping[str, str]

    def titles(self, names: Sequence[str]) -> dict[str, str]:
        """Those of `names` that can be run, with their version."""
        versions = {**PYPI, **NPM, "curl loop": f"-T {CURL_TIMEOUT_S} s"}
        return {name: f"{name} {versions[name]}" for name in names if name not in self.missing}

    def absent(self, names: Sequence[str]) -> dict[str, str]:
        return {name: self.missing[name] for name in names if name in self.missing}

    def node(self, name: str) -> str:
        return str(self.folder / "node" / "node_modules" / ".bin" / name)

    def python(self, name: str) -> str:
        return str(self.folder / "python" / "bin" / name)


def install(folder: Path, pypi: Mapping[str, str] = PYPI, npm: Mapping[str, str] = NPM) -> Peers:
    """Install what is not there yet; a peer that cannot be had is `missing` and no error."""
    missing = {}
    if not shutil.which("curl"):
        missing["curl loop"] = "there is no curl"
    for name, version in pypi.items():
        if why := _install_python(folder / "python", name, version):
            missing[name] = why
    for name, version in npm.items():
        if why := _install_node(folder / "node", name, version):
            missing[name] = why
    return Peers(folder, missing)


def _install_python(folder: Path, name: str, version: str) -> str:
    if any(folder.glob(f"lib/*/site-packages/{name}-{version}.dist-info")):
        return ""
    if not (folder / "bin" / "pip").exists() and (
        why := _try([sys.executable, "-m", "venv", str(folder)])
    ):
        return why
    return _try([str(folder / "bin" / "pip"), "install", "--quiet", f"{name}=={version}"])


def _install_node(folder: Path, name: str, version: str) -> str:
    package = folder / "node_modules" / name / "package.json"
    if package.exists() and f'"version": "{version}"' in package.read_text(encoding="utf-8"):
        return ""
    if not shutil.which("npm"):
        return "there is no npm"
    options = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
    return _try(["npm", "install", "--prefix", str(folder), *options, f"{name}@{version}"])


def _try(words: Sequence[str]) -> str:
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False
    )
    return (
        ""
        if done.returncode == 0
        else (done.stderr.strip().splitlines() or ["it cannot be installed"])[-1]
    )


def command_line(
    peers: Peers, name: str, scene: Scene, server: Sequence[str], port: int
) -> list[str]:
    """What one writes to start `server` with the peer `name` and wait until 127.0.0.1:`port` answers 200."""
    url = f"http://127.0.0.1:{port}/health"
    match name:
        case "curl loop":
            until = f"until curl -sf {url} >/dev/null; do sleep 1; done"
            return [
                "bash",
                "-c",
                f"{shlex.join(server)} & timeout {CURL_TIMEOUT_S} bash -c '{until}'",
            ]
        case "wait-on":
            waits = (
                f"{peers.node('wait-on')} -t {CURL_TIMEOUT_S}s http-get://127.0.0.1:{port}/health"
            )
            return ["bash", "-c", f"{shlex.join(server)} & {waits}"]
        case "start-server-and-test":
            client = f"date +%s%N > {scene.folder / 'told'}"
            return [
                peers.node(name),
                shlex.join(server),
                f"http-get://127.0.0.1:{port}/health",
                client,
            ]
        case "mirakuru":
            program = str(PROGRAMS / "mirakuru_launcher.py")
            return [peers.python("python"), program, url, str(scene.folder / "told"), *server]
        case "honcho":
            procfile = scene.folder / "Procfile"
            procfile.write_text(f"vllm: {shlex.join(server)}\n", encoding="utf-8")
            return [peers.python("honcho"), "-f", str(procfile), "start"]
        case _:
            raise ValueError(name)
