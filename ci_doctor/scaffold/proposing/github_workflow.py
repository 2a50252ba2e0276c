# SPDX-License-Identifier: Apache-2.0
"""Pure. A workflow of GitHub Actions that installs ci-doctor and runs the comparison."""

from collections.abc import Iterable, Sequence
from typing import Final

from ci_doctor.scaffold.home import is_release, requirement

WORKFLOW: Final = ".github/workflows/ci-doctor.yml"
_HEAD: Final = """\
name: ci-doctor
on:
  workflow_dispatch:
{pull_request}permissions:
  contents: read
jobs:
  correctness:
    runs-on: {machine}
    timeout-minutes: 40
    steps:
      - uses: actions/checkout@v5
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - run: |
"""
_TAIL: Final = """\
      - run: |
          {command} --report-dir ci-doctor-report
      - uses: actions/upload-artifact@v4
        if: always()
        with:
          name: ci-doctor-report
          path: ci-doctor-report
"""


def can_be_run_by_github(lines: Iterable[str]) -> bool:
    """Whether a workflow may hold these lines of shell.

    GitHub puts the value of an expression into the text of a script before a shell reads it, also
    within quotes: https://docs.github.com/en/actions/reference/security/secure-use
    """
    return all(line.isprintable() and "${{" not in line for line in lines)


def workflow_text(command: str, install: Sequence[str], version: str, *, needs_gpu: bool) -> str:
    """The whole file. install: what the server needs. A hosted machine has no GPU."""
    machine, pull_request = "ubuntu-latest", "  pull_request:\n"
    if needs_gpu:
        machine = "[self-hosted, gpu] # the labels of a runner of yours with a GPU"
        pull_request = "  # pull_request: # once runs-on names such a runner\n"
    lines = [f'python -m pip install "{requirement(version)}"', *install]
    if not is_release(version):
        lines.insert(0, f"# {version} is no release: name one that your index has.")
    installed = "".join(f"          {line}\n" for line in lines)
    head = _HEAD.format(machine=machine, pull_request=pull_request)
    return f"{head}{installed}{_TAIL.format(command=command)}"
