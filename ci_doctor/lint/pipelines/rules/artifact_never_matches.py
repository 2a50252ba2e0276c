# SPDX-License-Identifier: Apache-2.0
"""Pure. Artifact paths that match no file: the evidence of a failure is lost when it is needed."""

import re
from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.pipelines.examples import buildkite, job_steps
from ci_doctor.lint.pipelines.pipeline_context import PipelineContext
from ci_doctor.lint.pipelines.pipeline_file import FileKind, PipelineFile, PipelineStep
from ci_doctor.lint.pipelines.reading.yaml_nodes import (
    ScalarNode,
    mapping_of,
    scalars_of,
    text_of,
)
from ci_doctor.lint.pipelines.scripts import command_texts
from ci_doctor.lint.pipelines.step_keys import distance
from ci_doctor.lint.violation import Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

_UPLOAD = "- uses: actions/upload-artifact@v4\n  with:\n"

RULE: Final = LintRule(
    rule=Rule(
        id="pipeline/artifact-never-matches",
        severity=Severity.WARNING,
        meaning="A step uploads artifacts under a path that can match no file, so its reports are lost.",
        remedy="Write the path as the commands of the step write it, relative to the checkout.",
    ),
    bad=(
        buildkite("steps:\n  - command: make\n    artifact_paths: 'logs/*.{log,txt'\n"),
        buildkite("steps:\n  - command: make\n    artifact_paths: 'logs/*.log,reports/*.xml'\n"),
        buildkite(
            "steps:\n  - command: pytest --junitxml=report/junit.xml\n    artifact_paths: reports/junit.xml\n"
        ),
        buildkite(
            "steps:\n  - command: pytest --junitxml=out/junit-gpu.xml\n    artifact_paths: [out/junit_gpu.xml]\n"
        ),
        buildkite("steps:\n  - command: pytest tests\n    artifact_paths: reports/junit.xml\n"),
        buildkite(
            "steps:\n  - command: pytest --junitxml=out/a.xml tests\n    artifact_paths: 'test-results/*.xml'\n"
        ),
        job_steps("- run: python -m pytest -q\n" + _UPLOAD + "    path: coverage.xml\n"),
        job_steps(_UPLOAD + "    path: $GITHUB_WORKSPACE/report.xml\n"),
        job_steps(_UPLOAD + "    path: ${HOME}/report.xml\n"),
        job_steps(_UPLOAD + "    path: |\n      a.xml\n      $RUNNER_TEMP/logs/**\n"),
        job_steps(
            "- run: pytest --junitxml=results/junit.xml\n"
            + _UPLOAD
            + "    path: result/junit.xml\n"
        ),
    ),
    good=(
        buildkite("steps:\n  - command: make\n    artifact_paths: 'logs/*.{log,txt}'\n"),
        buildkite("steps:\n  - command: make\n    artifact_paths: 'logs/*.log;reports/*.xml'\n"),
        buildkite(
            "steps:\n  - command: pytest --junitxml=report/junit.xml\n    artifact_paths: report/junit.xml\n"
        ),
        buildkite("steps:\n  - command: make report\n    artifact_paths: reports/junit.xml\n"),
        buildkite(
            "steps:\n  - command: pytest --junitxml=out/a.xml\n    artifact_paths: 'out/**/*.xml'\n"
        ),
        buildkite(
            "steps:\n  - command: pytest tests && ./collect\n    artifact_paths: 'junit-*.xml'\n"
        ),
        buildkite("steps:\n  - command: make > $$LOG\n    artifact_paths: $LOG\n"),
        job_steps(_UPLOAD + "    path: ${{ github.workspace }}/report.xml\n"),
        job_steps(_UPLOAD + "    path: ~/report.xml\n"),
    ),
)

_SHELL_VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\})")
_EXPRESSION = re.compile(r"\$\{\{(?:(?!\$\{\{).)*?\}\}")
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+|[\w-]+\.(?:xml|json|jsonl|log|txt|html|csv|md)\b")
_GLOB = re.compile(r"[*?\[{$]")
_DIGITS = re.compile(r"\d+")


def check(pipeline: PipelineFile, context: PipelineContext) -> Iterator[Violation]:
    """Paths of artifacts that are no globs, or miss a path in the commands by a letter or two."""
    if pipeline.kind in (FileKind.WORKFLOW, FileKind.ACTION):
        yield from _uploads(pipeline, context)
        return
    visited: set[int] = set()
    for step in pipeline.commands:
        for node in scalars_of(step.node.get("artifact_paths")):
            if id(node) in visited:
                continue
            visited.add(id(node))
            paths = [each.strip() for each in node.value.split(";")]
            problem = (
                _bad_glob(node.value)
                or _missed(paths, [step], context)
                or _never_written(paths, [step], context)
            )
            if problem:
                yield pipeline.violation(RULE, node, problem)


def _bad_glob(text: str) -> str | None:
    bare = _SHELL_VARIABLE.sub("", text)
    if "{{" in text or "${" in bare:
        return None
    if text.count("{") != text.count("}") or text.count("[") != text.count("]"):
        return f"a bracket of '{text}' is not closed, so it matches nothing"
    outside = re.sub(r"\{[^{}]*\}", "", text)
    if re.search(r"\w,\s*[\w.*]+/", outside) and ";" not in text and "*" in text:
        return f"'{text}' is one path: `;` separates paths, not `,`"
    return None


def _uploads(pipeline: PipelineFile, context: PipelineContext) -> Iterator[Violation]:
    for step in pipeline.steps:
        uses = text_of(step.node.get("uses")) or ""
        options = mapping_of(step.node.get("with"))
        path = options.get("path") if options else None
        if not uses.startswith("actions/upload-artifact@") or not isinstance(path, ScalarNode):
            continue
        paths = [each.strip() for each in path.value.splitlines() if each.strip()]
        variable = next(
            (each for each in paths if _SHELL_VARIABLE.search(_EXPRESSION.sub("", each))), None
        )
        before = pipeline.job_steps.get(step.job.id, []) if step.job else list(pipeline.steps)
        if variable:
            yield pipeline.violation(
                RULE,
                path,
                f"'{variable}' is taken as it stands: no shell expands the variable in it",
                remedy="Write `${{ env.NAME }}` or `${{ github.workspace }}`.",
                severity=Severity.ERROR,
            )
        else:
            problem = _missed(paths, before, context) or _never_written(paths, before, context)
            if problem:
                yield pipeline.violation(RULE, path, problem)


def _missed(paths: list[str], steps: list[PipelineStep], context: PipelineContext) -> str | None:
    """A path that no command has, beside one in a command that it nearly is."""
    # An action of the repository may write files that no command names.
    if any((text_of(step.node.get("uses")) or "").startswith(".") for step in steps):
        return None
    script = "\n".join(text.value for step in steps for text in command_texts(step))
    for path in (each.strip().removeprefix("./") for each in paths):
        name = path.rsplit("/", 1)[-1]
        if _GLOB.search(path) or len(path) < 8 or path in script or "." not in name:
            continue
        for written in _PATH.findall(script):
            if (
                _nearly(written.removeprefix("./"), path)
                and written not in paths
                and not _stands_elsewhere(script, name, written)
                and context.matches(path) is not True
            ):
                return f"no command writes '{path}', but one has '{written}'"
    return None


def _nearly(written: str, path: str) -> bool:
    """One letter apart that is no digit, or other separators of words: `report/` and `reports/`."""
    if written.replace("_", "-") == path.replace("_", "-"):
        return True
    return distance(written, path, 1) == 1 and _DIGITS.findall(written) == _DIGITS.findall(path)


def _stands_elsewhere(script: str, name: str, written: str) -> bool:
    """Whether the script has the file's name elsewhere, as after a `cd`."""
    return re.search(rf"(?<![\w/.-]){re.escape(name)}", script.replace(written, "")) is not None


# A report that only an option of the command makes, in the file that the option names.
_REPORT = re.compile(
    r"(?i)(?:junit|report|result|coverage|cov|test)[\w.*-]*\.(?:xml|html|json|lcov|tap)$|\*\.xml$"
)
# The configuration files in which such an option may stand as well.
_OPTIONS_OF_TESTS = (
    "pyproject.toml",
    "pytest.ini",
    ".pytest.ini",
    "setup.cfg",
    "tox.ini",
    ".coveragerc",
)
_PLAIN = re.compile(
    r"(?:\s*(?:[A-Z_]+=\S+\s+)*(?:(?:python3?\s+-m\s+)?pytest\b|pip3?\s+install\b|python3?\s+-m\s+pip\b|echo\b|set\s+[-+]|export\s|cd\s|mkdir\s|true\b|sleep\b"
    r"|nvidia-smi\b|timeout\s+\S+\s+pytest\b|uv\s+run\s+pytest\b|source\s|#)[^\n;&|]*)?"
)
_SETUPS = (
    "actions/checkout@",
    "actions/setup-python@",
    "actions/upload-artifact@",
    "actions/cache@",
    "astral-sh/setup-uv@",
)


def _never_written(  # noqa: C901 - one branch for each case
    paths: list[str], steps: list[PipelineStep], context: PipelineContext
) -> str | None:
    """A report that none of the commands names, where all of them are known to write none unasked."""
    for step in steps:
        uses = text_of(step.node.get("uses")) or ""
        if (uses and not uses.startswith(_SETUPS)) or step.node.get("plugins") is not None:
            return None
    script = "\n".join(text.value for step in steps for text in command_texts(step)).replace(
        "\\\n", " "
    )
    if not script.strip() or not all(
        _PLAIN.fullmatch(each) for each in re.split(r"\n|;|&&|\|\|", script)
    ):
        return None
    settings = "\n".join(context.read(name) or "" for name in _OPTIONS_OF_TESTS)
    written = _PATH.findall(script)
    for path in paths:
        name = path.rsplit("/", 1)[-1]
        if _EXPRESSION.search(path) or "$" in path or not _REPORT.search(name):
            continue
        if context.matches(path) is True or _is_written(path, written, script):
            continue
        kind = name.rsplit(".", 1)[-1]
        if any(
            re.search(rf"--[\w-]+[= ]\S*\.{kind}\b|{re.escape(name)}|--cov-report", text)
            for text in (settings,)
        ):
            continue
        if "*" not in name or "/" in path:
            near = next((each for each in written if each.endswith(f".{kind}")), None)
            return f"no command writes '{path}'" + (f", but one writes '{near}'" if near else "")
        if not any(each.endswith(f".{kind}") for each in written):
            return f"no command writes a file that '{path}' matches"
    return None


def _is_written(path: str, written: list[str], script: str) -> bool:
    """Whether a command names the path, or a file or folder that its pattern may match."""
    name = path.rsplit("/", 1)[-1]
    stem = _GLOB.split(name)[0]
    if (
        (len(stem) > 2 and stem in script)
        or "cd " in script
        or "**" in path.split("/", maxsplit=1)[0]
    ):
        return True
    kind = name.rsplit(".", 1)[-1]
    if f"--cov-report={kind}" in script or f"--cov-report {kind}" in script:
        return True
    folder = path.rsplit("/", 1)[0] if "/" in path else ""
    first = _GLOB.split(folder.split("/")[0])[0]
    if folder and first and re.search(rf"(?<![\w-]){re.escape(first)}(?![\w-])", script):
        return True
    return not folder and "*" in name and any(each.endswith(f".{kind}") for each in written)
