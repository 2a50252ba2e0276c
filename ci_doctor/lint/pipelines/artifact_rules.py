# SPDX-License-Identifier: Apache-2.0
"""Pure. Rules about artifacts, parallel jobs and texts that nobody has filled in."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule, Violation
from ci_doctor.lint.pipelines.pipeline_file import (
    FileKind,
    PipelineContext,
    PipelineFile,
    PipelineStep,
    buildkite,
    distance,
    job_steps,
    words,
    workflow,
)
from ci_doctor.lint.pipelines.scripts import command_texts
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule
from ci_doctor.syntax.yaml_nodes import (
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    mapping_of,
    scalars_of,
    text_of,
    walk,
    whole_number,
)

_UPLOAD = "- uses: actions/upload-artifact@v4\n  with:\n"

ARTIFACT_NEVER_MATCHES: Final = LintRule(
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


def artifact_never_matches(pipeline: PipelineFile, context: PipelineContext) -> Iterator[Violation]:
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
                yield pipeline.violation(ARTIFACT_NEVER_MATCHES, node, problem)


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
                ARTIFACT_NEVER_MATCHES,
                path,
                f"'{variable}' is taken as it stands: no shell expands the variable in it",
                remedy="Write `${{ env.NAME }}` or `${{ github.workspace }}`.",
                severity=Severity.ERROR,
            )
        else:
            problem = _missed(paths, before, context) or _never_written(paths, before, context)
            if problem:
                yield pipeline.violation(ARTIFACT_NEVER_MATCHES, path, problem)


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


# Parallel jobs of one step that all do the same work.

UNUSED_PARALLELISM: Final = LintRule(
    rule=Rule(
        id="pipeline/unused-parallelism",
        severity=Severity.WARNING,
        meaning="A step has `parallelism`, and its commands do not read BUILDKITE_PARALLEL_JOB: each of its jobs runs all of the tests.",
        remedy="Share the tests out: `pytest --shard-id=$$BUILDKITE_PARALLEL_JOB --num-shards=$$BUILDKITE_PARALLEL_JOB_COUNT`.",
    ),
    bad=(
        buildkite("steps:\n  - command: pytest tests\n    parallelism: 4\n"),
        buildkite(
            "steps:\n  - commands: [cd tests, python -m pytest -v kernels]\n    parallelism: 2\n"
        ),
        buildkite("steps:\n  - command: pip install . && pytest tests\n    parallelism: '4'\n"),
        buildkite(
            "steps:\n  - commands:\n      - export A=1\n      - pytest -x tests\n    parallelism: 3\n    num_gpus: 1\n"
        ),
        buildkite(
            "steps:\n  - command: |\n      uv pip install -e .\n      pytest tests\n    parallelism: 8\n"
        ),
    ),
    good=(
        buildkite(
            "steps:\n  - command: pytest tests --shard-id=$$BUILDKITE_PARALLEL_JOB\n    parallelism: 4\n"
        ),
        buildkite("steps:\n  - command: pytest tests\n    parallelism: 1\n"),
        buildkite(
            "steps:\n  - command: pytest tests\n    env: {SHARD: $BUILDKITE_PARALLEL_JOB}\n    parallelism: 4\n"
        ),
        # What a script or another tool does is not known.
        buildkite("steps:\n  - command: ./run_tests.sh\n    parallelism: 4\n"),
        buildkite("steps:\n  - command: make test\n    parallelism: 4\n"),
        buildkite("steps:\n  - command: pytest --knapsack tests\n    parallelism: 4\n"),
    ),
)

_PARALLEL = re.compile(
    r"PARALLEL_JOB|knapsack|bktec|test-engine|ci[_-]node|[-_]shard|\bsplits?\b|--group",
    re.IGNORECASE,
)
_PART = re.compile(r"&&|;|\n|\|\|")
# Programs of which we know that they do not read the agent's variables themselves.
_KNOWN: Final = words("cd echo export pip pip3 uv pytest set mkdir ls date nvidia-smi apt-get true")


def unused_parallelism(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """Steps of which every program is known and none shares the work."""
    for step in pipeline.commands:
        node = step.node.get("parallelism")
        count = whole_number(node)
        if node is None or count is None or count < 2 or step.mirrored:
            continue
        if not _reads_number(step) and _all_known(step):
            yield pipeline.violation(
                UNUSED_PARALLELISM, node, f"all {count} jobs of {step.name} run the same tests"
            )


def _reads_number(step: PipelineStep) -> bool:
    return any(
        isinstance(each, ScalarNode) and _PARALLEL.search(each.value) for each in walk(step.node)
    )


def _all_known(step: PipelineStep) -> bool:
    if step.node.get("plugins") is not None:
        return False
    tests = False
    for text in command_texts(step):
        for part in _PART.split(text.value):
            words = [word for word in part.split() if not re.fullmatch(r"\w+=\S*", word)]
            if not words or words[0].startswith("#"):
                continue
            program = words[0]
            if program in ("python", "python3") and words[1:3] == ["-m", "pytest"]:
                program = "pytest"
            if program not in _KNOWN:
                return False
            tests = tests or program == "pytest"
    return tests


# A value that nobody filled in, judged by its siblings: values at the same place of entries like it.


def _entries(last: str) -> str:
    links = [f"https://github.com/org/repo/pull/{number}" for number in range(1200, 1209)]
    return "".join(f"- key: a\n  link: {link}\n" for link in [*links, last])


def _steps(last: str) -> str:
    owners = [f"team-{number}" for number in range(9)]
    steps = "".join(f"  - {{command: make, label: {each}}}\n" for each in [*owners, last])
    return f"steps:\n{steps}"


PLACEHOLDER: Final = LintRule(
    rule=Rule(
        id="pipeline/placeholder",
        severity=Severity.WARNING,
        meaning="All values at this place of the file have one shape, and one of them still holds what stood in the template.",
        remedy="Write the value that belongs here.",
    ),
    bad=(
        buildkite(_entries("https://github.com/org/repo/pull/XXX")),
        buildkite(_entries("https://github.com/org/repo/pull/TBD")),
        buildkite(_entries("https://github.com/org/repo/pull/<number>")),
        buildkite(_entries("https://github.com/org/repo/pull/")),
        buildkite(_entries("https://github.com/org/repo/pull/12O4")),
        buildkite(_entries("TODO")),
        buildkite(_entries("'???'")),
        buildkite(_steps("XXX")),
        buildkite(_steps("FIXME")),
        workflow(
            "runs-on: x\nstrategy:\n  matrix:\n    include:\n"
            + "".join(f"    - {{digest: 'build-{number}'}}\n" for number in range(100, 109))
            + "    - {digest: 'build-TODO'}\nsteps:\n- run: make\n"
        ),
    ),
    good=(
        buildkite(_entries("https://github.com/org/repo/pull/1300")),
        # Another repository is no placeholder.
        buildkite(_entries("https://github.com/org/other/pull/7")),
        buildkite(_entries("https://github.com/org/repo/issues/77")),
        # A word alone, without siblings that are filled in.
        buildkite("steps:\n  - {command: make, label: XXX}\n"),
        buildkite(_steps("TODO list of the team")),
    ),
)

_FEWEST = 8
# Most of the siblings have the usual shape.
_USUAL = 0.8
_LONGEST = 300
_NUMBER = re.compile(r"\d+")
_WORDS: Final = re.compile(
    r"X{3,}|x{4,}|TBD|TODO|FIXME|CHANGE[_-]?ME|PLACEHOLDER|REPLACE[_-]?ME|\?{2,}|<[a-zA-Z][\w -]*>|N{3,}|to be (?:determined|filled|added)",
)


def placeholder(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """Values that differ from their siblings as a placeholder does."""
    for document in pipeline.documents:
        for siblings in _groups(document).values():
            if len(siblings) >= _FEWEST:
                yield from _outliers(pipeline, siblings)


def _groups(document: Node) -> dict[tuple[str, ...], list[ScalarNode]]:
    """Scalars by their place, where all items of a list are one place, as are entries of one form."""
    groups: dict[tuple[str, ...], list[ScalarNode]] = {}
    visited: set[int] = set()
    waiting: list[tuple[tuple[str, ...], Node]] = [((), document)]
    while waiting:
        path, node = waiting.pop()
        if isinstance(node, ScalarNode):
            if len(node.value) <= _LONGEST:
                groups.setdefault(path, []).append(node)
            continue
        if id(node) in visited or len(path) > 12:
            continue
        visited.add(id(node))
        if isinstance(node, SequenceNode):
            below = (*path, "*")
            waiting.extend((below, each) for each in reversed(node.items))
        else:
            entries = _are_entries(node)
            waiting.extend(
                ((*path, "*" if entries else name), field.value)
                for name, field in reversed(node.fields.items())
                if not field.merged
            )
    return groups


def _are_entries(node: MappingNode) -> bool:
    """Whether the keys are names of entries like each other, and not fields."""
    values = [field.value for field in node.fields.values()]
    if len(values) < _FEWEST or not all(isinstance(each, MappingNode) for each in values):
        return False
    names = Counter(
        name for each in values if isinstance(each, MappingNode) for name in each.fields
    )
    return bool(names) and names.most_common(1)[0][1] >= _USUAL * len(values)


def _outliers(pipeline: PipelineFile, siblings: list[ScalarNode]) -> Iterator[Violation]:
    shapes = Counter(_NUMBER.sub("#", node.value) for node in siblings)
    usual, count = shapes.most_common(1)[0]
    filled = [node for node in siblings if not _WORDS.search(node.value)]
    numbered = usual.endswith("#") and usual.count("#") == 1 and count >= _USUAL * len(siblings)
    if len(filled) < _USUAL * len(siblings):
        return
    prefix = usual.split("#", 1)[0]
    for node in siblings:
        if numbered and len(prefix) >= 8 and _lacks_number(node.value, usual, prefix):
            summary = f"'{node.value}' stands where {count} values like it have a number"
        elif _is_placeholder(node.value, shapes, numbered=numbered, prefix=prefix):
            summary = f"'{node.value}' stands where {len(filled)} values like it are filled in"
        else:
            continue
        example = next(each for each in siblings if _NUMBER.sub("#", each.value) == usual)
        yield pipeline.violation(
            PLACEHOLDER,
            node,
            summary,
            remedy=f"Write a value such as `{example.value[:100]}`.",
            related=(example,),
        )


def _lacks_number(value: str, usual: str, prefix: str) -> bool:
    """The usual beginning, and then no number but a word or nothing in its place."""
    if not value.startswith(prefix) or _NUMBER.sub("#", value) == usual:
        return False
    rest = value[len(prefix) :]
    return re.fullmatch(r"\d*[A-Za-z<>?_-]+[\w<>?-]*|", rest) is not None


def _is_placeholder(value: str, shapes: Counter[str], *, numbered: bool, prefix: str) -> bool:
    """All of it is a word that means nothing, or its end after the beginning of its siblings."""
    match = _WORDS.search(value)
    if match is None:
        return False
    if match.group() == value.strip():
        return shapes[_NUMBER.sub("#", value)] <= 2
    return numbered and len(prefix) >= 3 and value.startswith(prefix) and match.end() == len(value)


RULES: Final = (
    (ARTIFACT_NEVER_MATCHES, artifact_never_matches),
    (UNUSED_PARALLELISM, unused_parallelism),
    (PLACEHOLDER, placeholder),
)
