# SPDX-License-Identifier: Apache-2.0
"""Pure. The files that name a server, and the table of servers with how each is started and asked."""

import re
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Final

from msgspec import Struct

# The files of a repository by their names: what is looked at, and which kind each text is.

# What others wrote and a repository only keeps, and what tools make.
LEFT_OUT: Final = frozenset(
    (
        *("third_party", "third-party", "3rdparty", "vendor", "node_modules", "site-packages"),
        *(".venv", "venv", ".git", ".tox", ".nox", "__pycache__", "build", "dist", ".mypy_cache"),
    )
)


class ListedFiles(Struct, frozen=True, kw_only=True):
    """What is looked at.

    root: the top of the repository, or the directory itself without one. directory: what is looked at,
    where the configuration goes. files: the names below `directory`, relative to it, with `/`.
    own_files: those of all of the repository, relative to `root`. is_whole: no limit was reached.
    """

    root: Path
    directory: Path
    is_repository: bool
    files: tuple[str, ...]
    root_files: tuple[str, ...]
    is_whole: bool = True


class TextKind(StrEnum):
    """How the commands in a text are written."""

    SHELL = "shell script"
    YAML = "YAML"
    DOCKERFILE = "image"
    MAKEFILE = "Makefile"
    TOML = "TOML"
    MARKDOWN = "documentation"


class ScriptPlace(StrEnum):
    """Where in a repository a command stands, the most telling place first."""

    PIPELINE = "Buildkite pipeline"
    WORKFLOW = "GitHub workflow"
    CI_SCRIPT = "CI script"
    TASK = "task"
    SCRIPT = "script"
    IMAGE = "image"
    EXAMPLE = "example"
    README = "README"


class SourceFile(Struct, frozen=True, kw_only=True):
    """`path` is relative to the directory that is looked at; its line ends are those of Unix."""

    path: str
    kind: TextKind
    place: ScriptPlace
    text: str


_SUFFIXES: Final = {
    ".sh": TextKind.SHELL,
    ".bash": TextKind.SHELL,
    ".slurm": TextKind.SHELL,
    ".sbatch": TextKind.SHELL,
    ".yml": TextKind.YAML,
    ".yaml": TextKind.YAML,
    ".dockerfile": TextKind.DOCKERFILE,
    ".mk": TextKind.MAKEFILE,
    ".just": TextKind.MAKEFILE,
}
_NAMES: Final = {
    "makefile": TextKind.MAKEFILE,
    "gnumakefile": TextKind.MAKEFILE,
    "justfile": TextKind.MAKEFILE,
    ".justfile": TextKind.MAKEFILE,
    "pyproject.toml": TextKind.TOML,
    "readme.md": TextKind.MARKDOWN,
    "readme.rst": TextKind.MARKDOWN,
}
_BY_KIND: Final = {
    TextKind.SHELL: ScriptPlace.SCRIPT,
    TextKind.DOCKERFILE: ScriptPlace.IMAGE,
    TextKind.YAML: ScriptPlace.IMAGE,
}
# What a repository shows to others, or measures, is not what its CI runs.
_EXAMPLES: Final = frozenset(
    {
        "examples",
        "example",
        "docs",
        "doc",
        "docs_src",
        "benchmarks",
        "benchmark",
        "demo",
        "demos",
        "tutorials",
        "tutorial",
        "recipes",
        "cookbook",
        "helm",
        "charts",
        "kubernetes",
        "k8s",
        "templates",
    }
)
# Where an agent looks for a pipeline by itself, besides `.buildkite`.
_PIPELINE: Final = re.compile(r"buildkite(?:/pipeline)?\.ya?ml")
_CI: Final = frozenset({".buildkite", ".ci", "ci", ".github", ".gitlab", "tests", "test", "e2e"})


def text_kind(path: str) -> TextKind | None:
    """The kind of the file at `path`; None for one in which no command is looked for."""
    name = path.rpartition("/")[2].lower()
    if name.startswith(("dockerfile", "containerfile")):
        return TextKind.DOCKERFILE
    kind = _NAMES.get(name)
    if path.startswith(".github/ISSUE_TEMPLATE/"):
        return None
    # The README of a subdirectory is about something else.
    if kind is TextKind.MARKDOWN and "/" in path:
        return None
    if kind is not None:
        return kind
    return _SUFFIXES.get(PurePosixPath(name).suffix)


def place_of_file(path: str, kind: TextKind) -> ScriptPlace:
    """Where the file at `path` belongs."""
    directories = frozenset(path.lower().split("/")[:-1])
    if kind is TextKind.MARKDOWN:
        return ScriptPlace.README
    if kind is TextKind.YAML and (".buildkite" in directories or _PIPELINE.fullmatch(path)):
        return ScriptPlace.PIPELINE
    if kind is TextKind.YAML and path.startswith(".github/"):
        return ScriptPlace.WORKFLOW
    if _EXAMPLES & directories:
        return ScriptPlace.EXAMPLE
    if _CI & directories and kind is not TextKind.DOCKERFILE:
        return ScriptPlace.CI_SCRIPT
    return _BY_KIND.get(kind, ScriptPlace.TASK)


# The servers that are recognised, in one table.
#
# The options and the paths are those of each project's own documentation:
# vLLM https://docs.vllm.ai/en/stable/cli/serve/, SGLang https://docs.sglang.ai/advanced_features/server_arguments.html,
# TensorRT-LLM https://nvidia.github.io/TensorRT-LLM/commands/trtllm-serve/, LMDeploy https://lmdeploy.readthedocs.io,
# llama.cpp https://github.com/ggml-org/llama.cpp/tree/master/tools/server, llama-cpp-python
# https://llama-cpp-python.readthedocs.io/en/latest/server/, text-generation-inference
# https://huggingface.co/docs/text-generation-inference/reference/launcher, text-embeddings-inference
# https://huggingface.co/docs/text-embeddings-inference/cli_arguments, LMCache https://docs.lmcache.ai,
# Uvicorn https://www.uvicorn.org/settings/.


class Api(StrEnum):
    """What a server can be asked; each has a form of request."""

    COMPLETIONS = "completions"
    CHAT = "chat"
    EMBEDDINGS = "embeddings"
    TGI_GENERATE = "tgi-generate"
    SGLANG_GENERATE = "sglang-generate"
    # The routes of a repository's own application.
    ROUTES = "routes"


class ServerKind(Struct, frozen=True, kw_only=True):
    """A row of the table.

    starts: the words with which the command begins; for `-m` the interpreter and its options stand
    before them. port_options: those that take a port, the first one is added if none is there. model_options: those that name the model;
    takes_model: the first word without a dash does. ready: a readiness probe (docs/probes.md).
    is_engine: it serves a large model, so it needs a GPU and takes long prompts. is_app: the words
    name an application of the repository. positional_port: the place of the port among the words
    that are no options.
    """

    name: str
    starts: tuple[tuple[str, ...], ...]
    port_options: tuple[str, ...] = ("--port",)
    model_options: tuple[str, ...] = ()
    takes_model: bool = False
    ready: str = "/health"
    apis: tuple[Api, ...] = ()
    is_engine: bool = False
    is_app: bool = False
    positional_port: int | None = None


_OPENAI: Final = (Api.COMPLETIONS, Api.CHAT)

PYTHON_PROGRAM: Final = "python"
KINDS: Final = (
    ServerKind(
        name="vllm",
        starts=(
            ("vllm", "serve"),
            ("lmcache_vllm", "serve"),
            ("-m", "vllm.entrypoints.openai.api_server"),
            ("-m", "vllm.entrypoints.cli.main", "serve"),
        ),
        model_options=("--model",),
        takes_model=True,
        apis=_OPENAI,
        is_engine=True,
    ),
    ServerKind(
        name="sglang",
        starts=(("-m", "sglang.launch_server"), ("sglang", "serve"), ("-m", "sglang", "serve")),
        model_options=("--model-path", "--model"),
        apis=(*_OPENAI, Api.SGLANG_GENERATE),
        is_engine=True,
    ),
    ServerKind(
        name="trtllm",
        starts=(("trtllm-serve", "serve"), ("trtllm-serve",)),
        takes_model=True,
        apis=_OPENAI,
        is_engine=True,
    ),
    ServerKind(
        name="lmdeploy",
        starts=(("lmdeploy", "serve", "api_server"),),
        port_options=("--server-port",),
        takes_model=True,
        apis=_OPENAI,
        is_engine=True,
    ),
    ServerKind(
        name="llama-server",
        starts=(("llama-server",),),
        model_options=("--model", "-m", "-hf", "--hf-repo"),
        apis=_OPENAI,
        is_engine=True,
    ),
    ServerKind(
        name="llama-cpp-python",
        starts=(("-m", "llama_cpp.server"),),
        model_options=("--model",),
        ready="/v1/models",
        apis=_OPENAI,
        is_engine=True,
    ),
    ServerKind(
        name="tgi",
        starts=(("text-generation-launcher",),),
        port_options=("--port", "-p"),
        model_options=("--model-id",),
        apis=(Api.TGI_GENERATE, Api.CHAT),
        is_engine=True,
    ),
    ServerKind(
        name="tei",
        starts=(("text-embeddings-router",),),
        port_options=("--port", "-p"),
        model_options=("--model-id",),
        apis=(Api.EMBEDDINGS,),
        is_engine=True,
    ),
    ServerKind(
        name="lmcache",
        starts=(("lmcache", "server"),),
        ready="tcp://127.0.0.1:{port}",
    ),
    ServerKind(
        name="lmcache",
        starts=(("lmcache_server",), ("-m", "lmcache.v1.server"), ("-m", "lmcache.server")),
        ready="tcp://127.0.0.1:{port}",
        positional_port=1,
    ),
    ServerKind(
        name="uvicorn",
        starts=(("uvicorn",), ("-m", "uvicorn")),
        is_app=True,
    ),
    # Recognised by the source of the program.
    ServerKind(name=PYTHON_PROGRAM, starts=(), port_options=("--port", "-p"), is_app=True),
)
OWN_PROGRAM: Final = KINDS[-1]
KV_STORE: Final = "lmcache"


def kind_at(words: list[str], at: int) -> tuple[ServerKind, int] | None:
    """The server whose command begins at `words[at]`, and the place behind the words that name it."""
    for kind in KINDS:
        for start in kind.starts:
            if _begins(words, at, start):
                return kind, at + len(start)
    return None


def _begins(words: list[str], at: int, start: tuple[str, ...]) -> bool:
    beginning = words[at : at + len(start)]
    if len(beginning) < len(start):
        return False
    # A program may be named with its directory.
    first = beginning[0].rpartition("/")[2]
    return [first, *beginning[1:]] == list(start)
