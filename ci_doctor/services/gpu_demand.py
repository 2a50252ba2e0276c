# SPDX-License-Identifier: Apache-2.0
"""Reads the commands of services: what they ask of GPUs, by their options.

Options: `vllm serve --help` (an underscore stands for a hyphen), and SGLang's server arguments.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from ci_doctor.machine.gpus import VISIBLE
from ci_doctor.services.spec import ServiceSpec

# What vLLM takes if nobody says more: 0.9, and 0.92 in versions of 2026. The lesser one is sure.
VLLM_SHARE: Final = 0.9
# `vllm serve --help` (an underscore stands for a hyphen), and SGLang's server arguments.
_SHARE: Final = ("--gpu-memory-utilization", "--mem-fraction-static")
_TENSOR: Final = ("--tensor-parallel-size", "-tp", "--tp-size", "--tp")
_PIPELINE: Final = ("--pipeline-parallel-size", "-pp", "--pp-size", "--pp")
# vLLM alone: SGLang's data parallelism may share the GPUs of one group.
_DATA: Final = ("--data-parallel-size", "-dp")
# SGLang takes GPUs from this number on.
_FIRST: Final = ("--base-gpu-id",)
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
# `-c`, and `-lc` or `-euc`: the script of a shell comes next.
_SCRIPT = re.compile(r"-[a-z]*c")
# Modules that serve. Others of these packages (sglang.bench_serving) are clients.
_VLLM_MODULES: Final = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server")
_SGLANG_MODULES: Final = ("sglang.launch_server", "sglang.srt.server")


class GpuEngine(StrEnum):
    """What serves the model."""

    VLLM = "vLLM"
    SGLANG = "SGLang"


class GpuDemand(Struct, frozen=True, kw_only=True):
    """What one service asks for.

    `share` is the part (0 to 1) of each GPU's memory, None if the engine decides. `gpus` is how
    many it uses, after the `first` ones. `visible` is CUDA_VISIBLE_DEVICES of the service alone, None
    for the job's.
    """

    service: str
    engine: GpuEngine
    share: float | None
    gpus: int
    visible: str | None
    first: int = 0


def demands_of(services: Mapping[str, ServiceSpec]) -> tuple[GpuDemand, ...]:
    """The demand of each service that is known to use GPUs, in the order of the configuration."""
    demands = (_demand(name, spec) for name, spec in services.items())
    return tuple(demand for demand in demands if demand is not None)


def _demand(name: str, spec: ServiceSpec) -> GpuDemand | None:
    try:
        words = list(_flat(spec.words()))
    except ValueError:  # an unclosed quotation, which the launch reports
        return None
    engine = _engine(words)
    if engine is None or _option(words, ("--device",)) == "cpu":
        return None
    share = _fraction(_option(words, _SHARE))
    # A file of options may say another share, and is not read.
    if share is None and engine is GpuEngine.VLLM and _option(words, ("--config",)) is None:
        share = VLLM_SHARE
    is_vllm = engine is GpuEngine.VLLM
    return GpuDemand(
        service=name,
        engine=engine,
        share=share,
        gpus=_count(words, _TENSOR)
        * _count(words, _PIPELINE)
        * _count(words, _DATA if is_vllm else ()),
        visible=_own_devices(spec, words),
        first=0 if is_vllm else _number(_option(words, _FIRST)) or 0,
    )


def _own_devices(spec: ServiceSpec, words: Sequence[str]) -> str | None:
    """Of the command (`env NAME=value …`, or a script) before that of the service's environment."""
    value = spec.env.get(VISIBLE)
    for word in words:
        name, equals, rest = word.partition("=")
        if equals and name == VISIBLE:
            value = rest.rstrip(";")
    if value is not None and "{" in value:  # known when the service is launched
        return None
    return value


def _flat(words: Sequence[str]) -> Iterator[str]:
    """The words, and those of a script after `-c`."""
    is_shell = False
    before = ""
    for word in words:
        if is_shell and _SCRIPT.fullmatch(before):
            yield from shlex.split(word)
        else:
            yield word
        is_shell = is_shell or word.rpartition("/")[2] in _SHELLS
        before = word


def _engine(words: Sequence[str]) -> GpuEngine | None:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        program = word.rpartition("/")[2]
        serves = following == "serve"  # `vllm bench serve` is a client
        if word in _VLLM_MODULES or (serves and program in {"vllm", "vllm.entrypoints.cli.main"}):
            return GpuEngine.VLLM
        if word in _SGLANG_MODULES or (serves and program == "sglang"):
            return GpuEngine.SGLANG
    return None


def _option(words: Sequence[str], names: Sequence[str]) -> str | None:
    """The value of the last of these options, as argparse takes it; None if it is not there."""
    value = None
    for place, word in enumerate(words):
        name, equals, rest = word.partition("=")
        if name.replace("_", "-") not in names:
            continue
        if equals:
            value = rest
        elif place + 1 < len(words):
            value = words[place + 1]
    return value


def _fraction(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 < value <= 1 else None


def _count(words: Sequence[str], names: Sequence[str]) -> int:
    """A number of GPUs; 1 for what is none."""
    return max(1, _number(_option(words, names)) or 1)


def _number(text: str | None) -> int | None:
    if text is None or re.fullmatch(r"[0-9]{1,9}", text) is None:
        return None
    return int(text)
