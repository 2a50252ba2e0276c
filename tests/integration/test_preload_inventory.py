# SPDX-License-Identifier: Apache-2.0
"""What runs at every start of real interpreters, what it costs, and what never runs."""

import os
from pathlib import Path

import pytest

from ci_doctor.model.finding import Finding, Severity
from ci_doctor.preload.install import install_shims
from ci_doctor.preload.interpreter import inspect_interpreter
from ci_doctor.preload.preload_rule import parse_rule
from ci_doctor.preload.start_files import HEAVY_US, PATH_FILE, Inventory, inventory
from ci_doctor.preload.status import start_up_table
from tests.integration.preload_venvs import Venv, interpreters, skip_without, without_sitecustomize

pytestmark = pytest.mark.integration

SYSTEM = interpreters()["system"]
DEBIAN_OWN = Path("/usr/lib/python3.11/sitecustomize.py")
# Takes about 30 ms; a wrapper, so that what it brings must be named.
HEAVY = "import asyncio, xml.dom.minidom\n"


def taken(venv: Venv, **environ: str) -> Inventory:
    return inventory(inspect_interpreter(venv.python), environ=environ)


def of_rule(found: Inventory, rule: str) -> list[Finding]:
    return [finding for finding in found.findings if finding.rule == rule]


def lines(venv: Venv, found: Inventory) -> list[str]:
    """The rows of the start-up files, as words."""
    table = start_up_table(inspect_interpreter(venv.python), found)
    return [" ".join([row.label, *(str(cell.value) for cell in row.cells)]) for row in table.rows]


def plain_python() -> Path:
    """An interpreter in whose virtual environments a sitecustomize of one's own runs."""
    found = [path for path in without_sitecustomize().values() if os.access(path, os.X_OK)]
    if not found:
        pytest.skip("every Python on this machine brings a sitecustomize of its own")
    return found[0]


@pytest.mark.parametrize(
    "name", [name for name in without_sitecustomize() if name in {"own", "3.8.18", "3.13.0"}]
)
@pytest.mark.gate(1)
def test_heavy_sitecustomize_is_found_with_what_it_imports(name: str, tmp_path: Path) -> None:
    skip_without(interpreters()[name])
    venv = Venv(interpreters()[name], tmp_path / "v")
    venv.put(
        {
            "sitecustomize.py": HEAVY,
            "light.pth": "import sys; sys.light = 1\n",
            "paths.pth": "/nowhere\n",
        }
    )
    install_shims([venv.python], [parse_rule("serve=json")], dry_run=False)
    before = venv.files()

    found = taken(venv)

    assert [Path(file.path).name for file in found.files] == [
        PATH_FILE,
        "light.pth",
        "sitecustomize.py",
    ]
    shim, light, customize = found.files
    assert light.lines == ("import sys; sys.light = 1",)
    # Wall clock: on a busy machine the shim, too, may take longer than an idle one allows.
    assert customize.cost_us > max(HEAVY_US, shim.cost_us)
    assert shim.cost_us > 0
    (heavy,) = found.findings
    assert (heavy.rule, heavy.severity) == ("preload/sitecustomize-heavy", Severity.WARNING)
    assert heavy.summary.startswith(f"{venv.site_dir / 'sitecustomize.py'} adds ")
    assert "because it imports asyncio (" in heavy.summary
    assert any("this shim" in line for line in lines(venv, found))
    assert venv.files() == before


@pytest.mark.skipif(not DEBIAN_OWN.exists(), reason="no Debian sitecustomize on this machine")
def test_sitecustomize_of_a_venv_of_debians_python_never_runs(tmp_path: Path) -> None:
    venv = Venv(SYSTEM, tmp_path / "v")
    venv.put({"sitecustomize.py": HEAVY})
    assert venv.run(
        "-c", "import sitecustomize; print(sitecustomize.__file__)"
    ).stdout.strip() == str(DEBIAN_OWN)

    found = taken(venv)

    (shadowed,) = found.findings
    assert (shadowed.rule, shadowed.severity) == ("preload/shadowed", Severity.WARNING)
    assert (
        shadowed.summary
        == f"{venv.site_dir / 'sitecustomize.py'} never runs: {DEBIAN_OWN} comes first"
    )
    assert [file.path for file in found.files] == [str(DEBIAN_OWN)]


def test_pythonpath_of_the_job_is_kept_apart(tmp_path: Path) -> None:
    venv = Venv(plain_python(), tmp_path / "v")
    venv.put({"sitecustomize.py": ""})
    agent = tmp_path / "agent"
    agent.mkdir()
    # As agents do: runs, takes itself out of sys.modules and of sys.path.
    (agent / "sitecustomize.py").write_text(
        f"import sys\ndel sys.modules['sitecustomize']\nsys.path.remove({str(agent)!r})\n"
    )

    found = taken(venv, PYTHONPATH=str(agent))

    (of_the_job,) = found.findings
    assert (of_the_job.rule, of_the_job.severity) == (
        "preload/sitecustomize-of-the-job",
        Severity.NOTE,
    )
    assert (
        f"comes first: {agent / 'sitecustomize.py'}, so that {venv.site_dir / 'sitecustomize.py'}"
        in (of_the_job.summary)
    )
    assert [file.path for file in found.files] == [str(venv.site_dir / "sitecustomize.py")]
    shown = lines(venv, found)
    assert f"with this PYTHONPATH, sitecustomize is {agent / 'sitecustomize.py'}" in shown
    assert taken(venv).findings == ()


def test_usercustomize_of_a_venv_never_runs(tmp_path: Path) -> None:
    venv = Venv(interpreters()["own"], tmp_path / "v")
    venv.put({"usercustomize.py": "raise SystemExit(3)"})
    assert venv.run("-c", "pass").returncode == 0

    (shadowed,) = of_rule(taken(venv), "preload/shadowed")

    assert (
        "usercustomize.py never runs: this interpreter reads no user site directory"
        in shadowed.summary
    )


def test_what_lies_in_the_users_directory_is_not_read_under_isolation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv = Venv(interpreters()["own"], tmp_path / "v")
    configuration = venv.directory / "pyvenv.cfg"
    configuration.write_text(
        configuration.read_text().replace("packages = false", "packages = true")
    )
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    version = venv.site_dir.parent.name
    user = tmp_path / "home" / ".local" / "lib" / version / "site-packages"
    user.mkdir(parents=True)
    (user / "usercustomize.py").write_text("import sys; sys.mine = 1\n")
    assert (
        venv.run("-c", "import sys; print(sys.mine)", HOME=str(tmp_path / "home")).stdout == "1\n"
    )

    found = taken(venv)

    mine = next(file for file in found.files if file.path.startswith(str(user)))
    assert (mine.path, mine.everywhere) == (str(user / "usercustomize.py"), False)
    assert any("usercustomize.py" in line and "not under -I" in line for line in lines(venv, found))


def test_lines_of_code_fit_a_terminal(tmp_path: Path) -> None:
    venv = Venv(interpreters()["own"], tmp_path / "v")
    venv.put({"long.pth": f"import sys; sys.long = '{'x' * 300}'\n"})

    (line,) = (line for line in lines(venv, taken(venv)) if "sys.long" in line)

    assert line.endswith("…")
    assert len(line) < 100
