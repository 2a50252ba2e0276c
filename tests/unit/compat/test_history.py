# SPDX-License-Identifier: Apache-2.0
"""The commit that changed a signature, from a real repository."""

import subprocess
from pathlib import Path

from ci_doctor.compat.outcome import check
from ci_doctor.compat.request import CompatRequest
from ci_doctor.model.facts.compat import CompatFacts


def commit(repository: Path, source: str, subject: str) -> None:
    (repository / "lib" / "__init__.py").write_text(source)
    subprocess.run(["git", "add", "-A"], cwd=repository, check=True)
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *identity, "commit", "-qm", subject], cwd=repository, check=True)


def test_a_break_names_the_commit_that_changed_the_signature(tmp_path: Path) -> None:
    repository = tmp_path / "repo"
    (repository / "lib").mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=repository, check=True)
    commit(repository, "class A:\n    def run(self, url): ...\n", "first")
    commit(repository, "class A:\n    def run(self, url, role): ...\n", "A role for everybody")
    commit(repository, "X = 1\nclass A:\n    def run(self, url, role): ...\n", "A constant")
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "use.py").write_text("from lib import A\nA().run('u')\n")

    for callee in (str(repository), f"{repository}@HEAD", str(repository / "lib")):
        request = CompatRequest(
            caller=str(tmp_path / "app"), callees=(callee,), python=None, python_version=(3, 12)
        )
        facts = check(request).facts

        assert isinstance(facts, CompatFacts)
        (found,) = facts.breaks
        assert found.changed_by is not None
        assert found.changed_by.endswith("A role for everybody")
        assert found.before is not None
        assert found.before.text == "A.run(self, url)"
