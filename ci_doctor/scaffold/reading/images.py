# SPDX-License-Identifier: Apache-2.0
"""Pure. A server that `docker run` starts by its image alone: the words behind the image are its arguments."""

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

_PROGRAMS: Final = frozenset(("docker", "podman", "nerdctl"))
# The entry points of these images, from their own Dockerfiles.
_IMAGES: Final = (
    (re.compile(r"(?:^|/)vllm-openai(?:[:@]|$)"), ("vllm", "serve")),
    (re.compile(r"(?:^|/)text-generation-inference(?:[:@]|$)"), ("text-generation-launcher",)),
    (re.compile(r"(?:^|/)text-embeddings-inference(?:[:@]|$)"), ("text-embeddings-router",)),
    (re.compile(r"(?:^|/)llama\.cpp:server"), ("llama-server",)),
)
_VARIABLES: Final = frozenset(("-e", "--env"))
# Options of `docker run` with a word of their own behind them.
_WITH_VALUE: Final = frozenset(
    (
        *(
            "-v",
            "--volume",
            "-p",
            "--publish",
            "--name",
            "--gpus",
            "--shm-size",
            "--ipc",
            "--runtime",
        ),
        *(
            "--network",
            "--net",
            "-w",
            "--workdir",
            "--mount",
            "--device",
            "--add-host",
            "-u",
            "--user",
        ),
        *("--restart", "--ulimit", "-h", "--hostname", "-m", "--memory", "--cpus", "--cpuset-cpus"),
        *("--env-file", "-l", "--label", "--pid", "--security-opt", "--cap-add", "--group-add"),
        *("--platform", "--pull", "--tmpfs", "--log-driver", "--log-opt", "--cidfile"),
    )
)


class ImageServer(Struct, frozen=True, kw_only=True):
    """program: what the image runs. variables: `NAME=value` of each `--env`. arguments: all behind the image."""

    program: tuple[str, ...]
    variables: tuple[str, ...]
    arguments: tuple[str, ...]


def server_in_image(words: Sequence[str]) -> ImageServer | None:
    """The server of a `docker run`; None for another command, another image or another entry point."""
    if "run" not in words or not _PROGRAMS.intersection(words[: words.index("run")]):
        return None
    at = words.index("run") + 1
    variables: list[str] = []
    while at < len(words) and words[at].startswith("-"):
        name, equals, value = words[at].partition("=")
        if name == "--entrypoint":
            return None
        at += 1
        if not equals and (name in _WITH_VALUE or name in _VARIABLES):
            value = "".join(words[at : at + 1])
            at += 1
        # `--env NAME` hands on a variable of the machine, whose value nobody knows here.
        if name in _VARIABLES and "=" in value:
            variables.append(value)
    if at >= len(words):
        return None
    program = _program_of(words[at])
    if program is None:
        return None
    arguments = tuple(words[at + 1 :])
    return ImageServer(program=program, variables=tuple(variables), arguments=arguments)


def _program_of(image: str) -> tuple[str, ...] | None:
    for pattern, program in _IMAGES:
        if pattern.search(image):
            return program
    return None
