# SPDX-License-Identifier: Apache-2.0
"""Pure. Short forms of the files in the examples of rules about pipelines."""

from textwrap import dedent

from ci_doctor.lint.lint_rule import Example


def buildkite(text: str) -> tuple[Example, ...]:
    """A pipeline of Buildkite."""
    return (Example(file=".buildkite/pipeline.yml", text=dedent(text)),)


def workflow(text: str) -> tuple[Example, ...]:
    """A workflow of GitHub with one job `test`; `text` holds the keys of the job."""
    body = dedent(text).strip("\n").replace("\n", "\n    ")
    return (
        Example(file=".github/workflows/test.yml", text=f"on: push\njobs:\n  test:\n    {body}\n"),
    )


def whole_workflow(text: str) -> tuple[Example, ...]:
    """A workflow of GitHub as it stands."""
    return (Example(file=".github/workflows/test.yml", text=dedent(text)),)


def job_steps(text: str) -> tuple[Example, ...]:
    """A workflow of GitHub with one job; `text` holds the items of its `steps`."""
    body = dedent(text).strip("\n").replace("\n", "\n  ")
    return workflow(f"runs-on: ubuntu-24.04\ntimeout-minutes: 30\nsteps:\n  {body}\n")
