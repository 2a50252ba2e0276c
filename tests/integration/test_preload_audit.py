# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor preload audit`, over packages that are installed in real environments."""

import json
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.integration.preload_venvs import Venv, interpreters, skip_without
from tests.support.cli import Ran, doctor
from tests.unit.preload.audit.packages import write

pytestmark = pytest.mark.integration

# Importing any of it leaves a trace.
TRACE = "open('IMPORTED', 'w').close()\n"
LAZY = TRACE + "import sys\nclass Lazy: pass\nsys.modules[__name__] = Lazy()\n"
SERVE = TRACE + (
    "import threading\n"
    "def warm_up():\n    import lazyformers\n"
    "threading.Thread(target=warm_up, daemon=True).start()\n"
    "from serve import config\n"
    "def main(): pass\n"
)
FILES = {
    "lazyformers.py": LAZY,
    "serve/__init__.py": TRACE,
    "serve/cli.py": SERVE,
    "serve/config.py": TRACE + "from lazyformers import GenerationConfig\n",
}
METADATA = {
    "serve_lm-1.2.3.dist-info/METADATA": "Metadata-Version: 2.1\nName: serve-lm\nVersion: 1.2.3\n",
    "serve_lm-1.2.3.dist-info/entry_points.txt": "[console_scripts]\nserve = serve.cli:main\n",
    "serve_lm-1.2.3.dist-info/RECORD": "serve/__init__.py,,\nserve/cli.py,,\nserve/config.py,,\n",
}
RULE = "serve.cli=lazyformers:GenerationConfig"


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    return Venv(interpreters()["own"], tmp_path / ".venv")


def put(venv: Venv, files: dict[str, str]) -> None:
    venv.put(files)


def audit(directory: Path, *words: str | Path) -> Ran:
    return doctor("preload", "audit", *words, cwd=directory)


def facts(ran: Ran) -> dict[str, Any]:
    (found,) = json.loads(ran.out)["facts"]["audits"]
    result: dict[str, Any] = found
    return result


def test_the_race_of_a_script_is_found_with_the_rule_that_cures_it(
    venv: Venv, tmp_path: Path
) -> None:
    put(venv, FILES | METADATA)

    ran = audit(tmp_path, "serve-lm")

    assert ran.code == 1, ran
    assert f"ci-doctor preload install --rule {RULE}" in " ".join(ran.out.split()), ran
    assert "serve.cli:5" in ran.out
    assert not (tmp_path / "IMPORTED").exists()
    report = facts(audit(tmp_path, "serve-lm", "--json"))
    (start,) = report["starts"]
    assert (start["line"], start["when"], start["preload_rule"]) == (5, "at import", RULE)
    assert start["entry_points"] == ["serve"]
    assert report["version"] == "1.2.3"


def test_the_rule_of_an_audit_can_be_installed_and_cures_the_program(
    venv: Venv, tmp_path: Path
) -> None:
    put(venv, FILES | METADATA)
    assert doctor("preload", "install", "--rule", RULE, cwd=tmp_path).code == 0


def test_an_editable_installation_is_followed_to_its_source(venv: Venv, tmp_path: Path) -> None:
    put(venv, {name: text for name, text in METADATA.items() if "RECORD" not in name})
    source = write(tmp_path / "checkout", FILES)
    put(venv, {"__editable__.serve.pth": f"{source}\n"})

    assert audit(tmp_path, "serve-lm").code == 1


def test_an_editable_installation_by_import_hook_is_followed(venv: Venv, tmp_path: Path) -> None:
    put(venv, {name: text for name, text in METADATA.items() if "RECORD" not in name})
    source = write(tmp_path / "checkout", FILES)
    mapping = {"serve": str(source / "serve"), "lazyformers": str(source / "lazyformers")}
    hook = f"MAPPING = {mapping!r}\nNAMESPACES = {{}}\n"
    put(venv, {"__editable___serve_finder.py": hook})
    put(venv, {"__editable__.serve.pth": "import __editable___serve_finder\n"})

    ran = audit(tmp_path, "serve-lm")

    assert ran.code == 1, ran


def test_a_zip_archive_on_the_path_is_read(venv: Venv, tmp_path: Path) -> None:
    archive = tmp_path / "serve.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for name, text in FILES.items():
            file.writestr(name, text)
    put(venv, {"serve.pth": f"{archive}\n"})

    ran = audit(tmp_path, "serve", "--trigger", "serve.cli")

    assert ran.code == 1, ran


def test_a_namespace_package_is_audited_by_its_parts(venv: Venv, tmp_path: Path) -> None:
    put(
        venv,
        {
            "lazyformers.py": LAZY,
            "space/serve/__init__.py": SERVE.replace("serve import", "space.serve import"),
            "space/serve/config.py": FILES["serve/config.py"],
            "space_serve-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: s-s\nVersion: 1\n",
            "space_serve-1.dist-info/RECORD": "space/serve/__init__.py,,\nspace/serve/config.py,,\n",
        },
    )

    report = facts(audit(tmp_path, "s-s", "--json"))

    assert report["entry_points"] == ["import space.serve"]
    assert [start["when"] for start in report["starts"]] == ["at import"]


def test_debians_own_python_is_audited(tmp_path: Path) -> None:
    debian = Path("/usr/bin/python3")
    skip_without(debian)
    write(tmp_path / "lib", FILES)

    ran = doctor(
        *("preload", "audit", "serve", "--trigger", "serve.cli", "--python", debian),
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "lib")},
    )

    assert ran.code == 1, ran


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nothing-of-that-name",), "has no package nothing-of-that-name"),
        (("serve", "--trigger", "serve.nowhere"), "has no such module"),
        (("serve", "--entry", "nope"), "has no such entry point"),
        (("serve", "--follow", "nope"), "has no such package"),
    ],
)
@pytest.mark.gate(1)
def test_what_is_not_there_is_a_usage_error(
    words: tuple[str, ...], message: str, venv: Venv, tmp_path: Path
) -> None:
    put(venv, FILES)

    ran = audit(tmp_path, *words)

    assert ran.code == 2, ran
    assert message in " ".join(ran.out.split()) + ran.err, ran


def test_code_without_source_is_void_and_not_a_pass(venv: Venv, tmp_path: Path) -> None:
    put(venv, FILES | METADATA)
    subprocess.run(
        [venv.python, "-m", "compileall", "-q", "-b", venv.site_dir / "serve"], check=True
    )
    for path in (venv.site_dir / "serve").glob("*.py"):
        path.unlink()

    ran = audit(tmp_path, "serve-lm")

    assert ran.code == 86, ran


def test_a_package_without_races_passes_and_says_what_it_did_not_follow(
    venv: Venv, tmp_path: Path
) -> None:
    put(venv, {"calm.py": "import threading, torch\nthreading.Thread(target=print).start()\n"})

    ran = audit(tmp_path, "calm")

    assert ran.code == 0, ran
    assert "What was not followed" in ran.out
    assert "torch" in ran.out
