# SPDX-License-Identifier: Apache-2.0
"""Pure. An `if` that Buildkite or GitHub cannot parse."""

import re
from collections.abc import Iterator
from typing import Final

from ci_doctor.lint.lint_rule import LintRule
from ci_doctor.lint.pipelines.examples import buildkite, job_steps
from ci_doctor.lint.pipelines.pipeline_context import PipelineContext
from ci_doctor.lint.pipelines.pipeline_file import FileKind, PipelineFile
from ci_doctor.lint.pipelines.reading.yaml_nodes import MappingNode, ScalarNode
from ci_doctor.lint.pipelines.word_sets import words
from ci_doctor.lint.violation import Violation
from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

RULE: Final = LintRule(
    rule=Rule(
        id="pipeline/unreadable-condition",
        severity=Severity.ERROR,
        meaning="A condition is no expression of the language that reads it, so the upload or the workflow is refused.",
        remedy="Buildkite: `==`, `!=`, `=~`, `!~`, `&&`, `||`, `!`, texts in quotes. GitHub: texts in single quotes only.",
    ),
    bad=(
        buildkite("steps:\n  - command: make\n    if: build.branch = 'main'\n"),
        buildkite(
            "steps:\n  - command: make\n    if: build.branch == 'main' and build.tag != null\n"
        ),
        buildkite("steps:\n  - command: make\n    if: (build.branch == 'main'\n"),
        buildkite(
            "steps:\n  - command: make\n    if: build.branch == 'main' & build.tag == null\n"
        ),
        buildkite("steps:\n  - command: make\n    if: build.branch == main\n"),
        buildkite("steps:\n  - command: make\n    if: build.brnach == 'main'\n"),
        buildkite('steps:\n  - command: make\n    if: "build.message =~ /skip"\n'),
        buildkite("steps:\n  - command: make\n    if: ${{ build.branch == 'main' }}\n"),
        job_steps('- run: make\n  if: github.ref == "refs/heads/main"\n'),
        job_steps("- run: make\n  if: github.ref = 'refs/heads/main'\n"),
        job_steps("- run: make\n  if: ${{ (github.ref == 'x' }}\n"),
        job_steps("- run: make\n  if: success() and github.ref == 'x'\n"),
    ),
    good=(
        buildkite(
            "steps:\n  - command: make\n    if: build.branch == 'main' && build.tag != null\n"
        ),
        buildkite(
            "steps:\n  - command: make\n    if: build.message !~ /skip (it|that)/i || !build.pull_request.draft\n"
        ),
        buildkite(
            "steps:\n  - command: make\n    if: |\n      // only on main = here\n      build.branch == \"main\" && build.env('A') != null\n"
        ),
        buildkite(
            "steps:\n  - command: make\n    if: build.creator.teams includes 'a' && (build.source == \"ui\")\n"
        ),
        buildkite("steps:\n  - command: make\n    if: build.branch == pipeline.default_branch\n"),
        job_steps(
            "- run: make\n  if: github.ref == 'refs/heads/main' && contains(github.event.head_commit.message, 'it''s \"x\"')\n"
        ),
        job_steps("- run: make\n  if: ${{ always() && needs.a.result != 'skipped' }}\n"),
    ),
)

_TOKEN = re.compile(
    r"(?P<skip>\s+|//[^\n]*)"
    r"|(?P<text>'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")"
    r"|(?P<interpolated>\$\$?\{[^}]*\}|\$\$?\w+)"
    r"|(?P<operator>==|!=|=~|!~|&&|\|\||[!(),<>]|>=|<=)"
    r"|(?P<word>[A-Za-z_][\w.\[\]-]*)"
    r"|(?P<number>-?\d+)"
)
_REGEX = re.compile(r"\s*/(?:\\.|[^/\\\n])+/[a-z]*")
_EXPRESSION = re.compile(r"\$\{\{((?:(?!\$\{\{).)*?)\}\}", re.DOTALL)
_GITHUB_TEXT = re.compile(r"'(?:[^']|'')*'")
_WORDS: Final = frozenset(
    {"true", "false", "null", "includes", "build", "pipeline", "organization", "step"}
)
_BUILD: Final = words(
    "author.email author.id author.name author.teams branch commit creator.email creator.id creator.name "
    "creator.teams creator.verified env id message merge_queue.base_branch merge_queue.base_commit number "
    "pull_request.base_branch pull_request.id pull_request.draft pull_request.label pull_request.labels "
    "pull_request.repository pull_request.repository.fork source source_event.action "
    "source_event.type state tag triggered_from triggered_by"
)


def check(pipeline: PipelineFile, _context: PipelineContext) -> Iterator[Violation]:
    """Conditions of steps and jobs; nothing of a generator, which may read them itself."""
    if pipeline.kind is FileKind.BUILDKITE:
        nodes = [step.node for step in pipeline.steps]
        reader = _buildkite_problem
    elif pipeline.kind in (FileKind.WORKFLOW, FileKind.ACTION):
        nodes = [*(job.node for job in pipeline.jobs), *(step.node for step in pipeline.steps)]
        reader = _github_problem
    else:
        return
    for condition in conditions(nodes):
        problem = reader(condition.value)
        if problem:
            yield pipeline.violation(RULE, condition, f"the condition cannot be read: {problem}")


def conditions(nodes: list[MappingNode]) -> Iterator[ScalarNode]:
    """The texts of `if`, each once."""
    visited: set[int] = set()
    for node in nodes:
        condition = node.get("if")
        if isinstance(condition, ScalarNode) and id(condition) not in visited:
            visited.add(id(condition))
            yield condition


def _buildkite_problem(text: str) -> str | None:
    if "${{" in text:
        return "`${{ }}` is GitHub's form"
    depth = position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            return _stray(text[position:])
        word = match.group()
        position = match.end()
        if word in ("=~", "!~"):
            expression = _REGEX.match(text, position)
            position = expression.end() if expression else position
        depth += (word == "(") - (word == ")")
        if depth < 0:
            return "a bracket closes that none has opened"
        if match.lastgroup == "word":
            problem = _word_problem(word)
            if problem:
                return problem
    return "a bracket is not closed" if depth else None


def _stray(rest: str) -> str:
    if rest[0] in "\"'":
        return "a text is not closed"
    if rest[0] == "/":
        return "a regular expression is not closed, or does not follow `=~` or `!~`"
    if rest[0] == "=":
        return "`=` stands where `==` or `=~` is meant"
    return f"`{rest[0]}` has no meaning here"


def _word_problem(word: str) -> str | None:
    if word in ("and", "or", "not"):
        sign = {"and": "&&", "or": "||", "not": "!"}[word]
        return f"`{word}` stands where `{sign}` is meant"
    root, _, rest = word.partition(".")
    if not rest and word not in _WORDS and word != "env":
        return f"`{word}` is a bare word: a text needs quotes"
    if root == "build" and rest not in _BUILD and "[" not in rest:
        from ci_doctor.lint.pipelines.step_keys import distance

        near = [
            name for name in sorted(_BUILD) if distance(rest, name, 2) <= min(2, len(rest) // 3)
        ]
        return f"there is no `{word}`, but `build.{near[0]}`" if near else None
    return None


def _github_problem(text: str) -> str | None:
    expressions = _EXPRESSION.findall(text) if "${{" in text else [text]
    if not expressions:
        return "`${{` is not closed"
    return next((problem for each in expressions for problem in _expression_problems(each)), None)


def _expression_problems(expression: str) -> Iterator[str]:
    bare = _GITHUB_TEXT.sub(" ", expression)
    if '"' in bare:
        yield "a text stands in double quotes, and only single ones are allowed"
    if "'" in bare:
        yield "a text is not closed"
    if bare.count("(") != bare.count(")"):
        yield "a bracket is not closed"
    if re.search(r"(?<![=!<>])=(?!=)", bare):
        yield "`=` stands where `==` is meant"
    word = re.search(r"(?<=[\s)])(and|or)(?=[\s(])", bare)
    if word:
        sign = "&&" if word.group() == "and" else "||"
        yield f"`{word.group()}` stands where `{sign}` is meant"
