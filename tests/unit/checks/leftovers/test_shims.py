"""Preload shims that were cut off."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ci_doctor.checks.leftovers.shims import CHECK
from ci_doctor.checks.result import CheckStatus
from ci_doctor.preload.install import install_shims
from ci_doctor.preload.preload_rule import parse_rule
from ci_doctor.preload.shim_files import FINDER, PATH_FILE
from ci_doctor.preload.status import status
from tests.support.checks import check_context

# What Python 3.6 answers.
OLD = {
    "version": [3, 6, 15],
    "implementation": "cpython",
    **dict.fromkeys(("prefix", "base_prefix", "purelib", "platlib"), "/opt"),
    **{key: [] for key in ("site_dirs", "sys_path")},
    "externally_managed": False,
    "cache_tag": "cpython-36",
    "magic": "",
}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    venv = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    return venv / "bin" / "python"


def test_a_shim_is_looked_at_and_what_was_cut_off_is_repaired(tmp_path: Path, python: Path) -> None:
    context = check_context(tmp_path, pythons=[python])
    assert CHECK.run(context).summary == f"{python}: no shim"
    rule = parse_rule("serve=json:dumps")
    install_shims([python], [rule], dry_run=False)
    assert CHECK.run(context).summary == f"{python}: a whole shim"

    finder = status(python).target.site_dir / FINDER
    finder.write_bytes(finder.read_bytes()[:200])
    damaged = CHECK.run(context)

    (found,) = damaged.problems
    assert damaged.status is CheckStatus.WARNING
    assert found.fix is not None
    assert "anew, with serve=json:dumps" in found.fix.words
    found.fix.apply()
    assert status(python).installed
    assert status(python).rules == (rule,)
    assert CHECK.run(context).problems == ()

    path_file = status(python).target.site_dir / PATH_FILE
    path_file.write_bytes(path_file.read_bytes() + b"# mine\n")
    (found,) = CHECK.run(context).problems
    assert found.fix is None
    assert found.finding.remedy == f"ci-doctor preload status --python {python}"


def test_an_interpreter_that_can_have_no_shim_is_ok(tmp_path: Path) -> None:
    old = tmp_path / "python"
    old.write_text(f"#!/bin/sh\necho '{json.dumps(OLD)}'\n")
    old.chmod(0o755)

    result = CHECK.run(check_context(tmp_path, pythons=[old]))

    assert result.status is CheckStatus.OK
    assert "cpython 3.6.15" in result.summary
