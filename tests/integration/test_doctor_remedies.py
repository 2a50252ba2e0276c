# SPDX-License-Identifier: Apache-2.0
"""A remedy of `doctor` that is a command cures: it is pasted into the shell that showed the fault.

Each scene breaks something in an empty folder, or in a name space of its own. The check must show
the rule, and must not show it after the remedy, in the same shell.
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tests.support.git_repository import commit, git, make_repository

pytestmark = pytest.mark.integration

OLD = (0, 0)
APART = ("unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc")


class Scene(Struct, frozen=True, kw_only=True):
    """`break_it` prepares the folder, `line` the shell; the check `check` then shows `rule`."""

    check: str
    rule: str
    break_it: Callable[[Path], object] = lambda _: None
    line: str = ":"
    is_apart: bool = False  # in name spaces of its own
    options: tuple[str, ...] = ()


def repository(top: Path) -> Path:
    make_repository(top, {"a": "1\n"})
    git(top, "config", "user.name", "a")
    git(top, "config", "user.email", "a@example.org")
    return top


def locked(name: str) -> Callable[[Path], None]:
    def lock(top: Path) -> None:
        repository(top)
        path = top / ".git" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, OLD)

    return lock


def submodule(top: Path) -> None:
    inner = repository(top.parent / "inner")
    repository(top)
    always = ("-c", "protocol.file.allow=always")
    git(top, *always, "submodule", "--quiet", "add", str(inner), "inner")
    git(top, "commit", "--quiet", "--message=m")
    git(top, "submodule", "--quiet", "deinit", "--all", "--force")


def nightly(top: Path) -> None:
    project = (
        '[build-system]\nrequires = ["setuptools", "setuptools-scm>=8"]\n'
        'build-backend = "setuptools.build_meta"\n[project]\nname = "serving"\n'
        'dynamic = ["version"]\n[tool.setuptools_scm]\n'
    )
    make_repository(top, {"pyproject.toml": project})
    git(top, "tag", "v0.4.3")
    commit(top, {"more": "x\n"})
    git(top, "tag", "nightly-cu13")


def old_file(name: str) -> Callable[[Path], None]:
    def make(top: Path) -> None:
        path = top / name
        path.parent.mkdir(parents=True)
        path.touch()
        os.utime(path, OLD)

    return make


def own_directory(top: Path) -> None:
    # Of a run that was killed: its lock is free.
    program = (
        "import os; from ci_doctor.system.files.access import own_directory\n"
        "with own_directory('x') as place:\n    print(place, flush=True); os._exit(9)\n"
    )
    (top / "tmp").mkdir()
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TMPDIR": str(top / "tmp")},
        capture_output=True,
        text=True,
        check=False,
    )
    for each in (Path(ran.stdout.strip()), *Path(ran.stdout.strip()).rglob("*")):
        os.utime(each, OLD)


def named(check: str, rule: str, text: str) -> Scene:
    """What /etc/hosts holds."""
    return Scene(
        check=check,
        rule=rule,
        break_it=lambda top: (top / "hosts").write_text(text),
        line="mount --bind hosts /etc/hosts",
        is_apart=True,
    )


def exported(rule: str, line: str) -> Scene:
    """A variable that changes what each Python does."""
    options = ("--python", sys.executable)
    return Scene(check="python/variables", rule=rule, line=f"export {line}", options=options)


LOCK = "doctor/stale-git-lock"
SCENES = {
    **{
        f"lock {name}": Scene(check="checkout/locks", rule=LOCK, break_it=locked(name))
        for name in (
            "index.lock",
            "refs/remotes/origin/a/b.lock",
            "modules/inner/index.lock",
        )
    },
    "submodule": Scene(
        check="checkout/submodules",
        rule="doctor/submodules",
        break_it=submodule,
        line="export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=protocol.file.allow GIT_CONFIG_VALUE_0=always",
    ),
    "version tag": Scene(
        check="checkout/version-tags", rule="doctor/version-tag", break_it=nightly
    ),
    "build lock": Scene(
        check="leftovers/build-locks",
        rule="doctor/stale-build-lock",
        break_it=old_file("torch/py311_cu130/ext/lock"),
        line="export TORCH_EXTENSIONS_DIR=$PWD/torch",
    ),
    "temporary directory": Scene(
        check="leftovers/temporary-directories",
        rule="doctor/own-directories",
        break_it=own_directory,
        line="export TMPDIR=$PWD/tmp",
    ),
    "localhost elsewhere": named(
        "network/localhost",
        "doctor/localhost-unresolved",
        "10.0.0.5 gateway LOCALHOST localhost # our host\n::1 localhost6",
    ),
    "localhost elsewhere too": named(
        "network/localhost",
        "doctor/localhost-unresolved",
        "127.0.0.1 localhost\n192.0.2.7\tlocalhost\n127.0.1.1 box",
    ),
    "no localhost": named("network/localhost", "doctor/localhost-unresolved", "10.0.0.5 gateway"),
    "localhost of IPv6 alone": named(
        "network/localhost", "doctor/localhost-ipv6-only", "::1 localhost"
    ),
    "hostname": named("network/hostname", "doctor/hostname-unresolved", "127.0.0.1 localhost"),
    "loopback": Scene(
        check="network/loopback", rule="doctor/loopback-down", line=":", is_apart=True
    ),
    "open files": Scene(check="machine/ulimits", rule="doctor/ulimit-low", line="ulimit -S -n 100"),
    "proxy": Scene(
        check="network/loopback-proxy",
        rule="doctor/loopback-proxied",
        line="export http_proxy=http://proxy.invalid:3128",
    ),
    # The first process of the name space is the shell, as in an image without an init.
    "orphan of another job": Scene(
        check="leftovers/processes",
        rule="doctor/stale-processes",
        line="export BUILDKITE_JOB_ID=ours; (BUILDKITE_JOB_ID=earlier setsid sleep 600 &)",
        is_apart=True,
    ),
    "optimized": exported("doctor/asserts-removed", "PYTHONOPTIMIZE=1"),
    "installer": exported("doctor/installer-redirected", "PIP_TARGET=/elsewhere"),
    "PYTHONPATH": exported("doctor/pythonpath-leak", "PYTHONPATH=/nowhere:/neither"),
}
# A report must not be a part of what it reports on.
ASK = "ci-doctor doctor --json {options} {check} > ../{name}.json || :"


def findings(path: Path, rule: str) -> list[dict[str, Any]]:
    return [each for each in json.loads(path.read_text())["findings"] if each["rule"] == rule]


def shell(scene: Scene, top: Path, *lines: str) -> None:
    text = "\n".join([scene.line, *lines])
    command = ["sh", "-c", text]
    if scene.is_apart:
        command = [*APART, *command]
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GIT_", "PYTHON", "SETUPTOOLS", "LC_", "BUILDKITE"))
        and not name.lower().endswith("_proxy")
    }
    environ["PATH"] = f"{Path(sys.executable).parent}:{environ['PATH']}"
    environ["HOME"] = str(top.parent / "home")
    (top.parent / "home").mkdir(exist_ok=True)
    ran = subprocess.run(
        command, cwd=top, env=environ, capture_output=True, text=True, check=False, timeout=120
    )
    assert ran.returncode == 0, ran.stderr


def has_name_spaces() -> bool:
    return subprocess.run([*APART, "true"], check=False, capture_output=True).returncode == 0


@pytest.mark.gate(12)
@pytest.mark.parametrize("name", SCENES)
def test_a_remedy_that_is_a_command_cures(name: str, tmp_path: Path) -> None:
    scene = SCENES[name]
    if scene.is_apart and not has_name_spaces():
        pytest.skip("no name spaces here")
    top = tmp_path / "top"
    top.mkdir()
    scene.break_it(top)
    options = shlex.join(scene.options)

    def ask(report: str) -> str:
        return ASK.format(options=options, check=scene.check, name=report)

    shell(scene, top, ask("before"))
    (found, *_) = findings(tmp_path / "before.json", scene.rule)
    assert found["remedy_kind"] == "command", found

    shell(scene, top, found["remedy"], ask("after"))
    assert findings(tmp_path / "after.json", scene.rule) == []
