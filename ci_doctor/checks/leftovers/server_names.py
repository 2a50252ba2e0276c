# SPDX-License-Identifier: Apache-2.0
"""Pure. Which command lines are servers of language models, their workers, or what starts them."""

from collections.abc import Sequence
from typing import Final

# What setproctitle(3) leaves of a command line: vLLM, SGLang and Ray name their workers so.
_TITLES: Final = ("VLLM::", "sglang::", "ray::", "EngineCore")
_PROGRAMS: Final = frozenset(
    {
        "vllm",
        "sglang",
        "lmcache",
        "lmcache_server",
        "lmcache_controller",
        "raylet",
        "gcs_server",
        "torchrun",
        "trtllm-serve",
    }
)
_PACKAGES: Final = ("vllm", "sglang", "lmcache", "torch.distributed", "ray")
_GUARDIAN: Final = "ci_doctor.system.guardian"
# Options of Python with a value of their own (python(1)).
_WITH_VALUE: Final = frozenset({"-W", "-X", "--check-hash-based-pycs"})


def is_server(words: Sequence[str]) -> bool:
    """Whether a command line is one of those that a killed job tends to leave."""
    if not words:
        return False
    if words[0].startswith(_TITLES):
        return True
    program = _base(words[0])
    if program.startswith("python"):
        return _is_server_in_python(words[1:])
    return program in _PROGRAMS


def _is_server_in_python(words: Sequence[str]) -> bool:
    arguments = iter(words)
    for word in arguments:
        if word == "-m":
            return _is_package(next(arguments, ""))
        if word == "-c":
            return _GUARDIAN in next(arguments, "")
        if word in _WITH_VALUE:
            next(arguments, None)
        elif not word.startswith("-"):
            return _base(word) in _PROGRAMS
    return False


def _is_package(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in _PACKAGES)


def _base(path: str) -> str:
    return path.rpartition("/")[2]
