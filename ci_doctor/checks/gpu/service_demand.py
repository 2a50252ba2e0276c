# SPDX-License-Identifier: Apache-2.0
"""Pure. What the configured services ask of GPUs, by the options in their commands.

Options: `vllm serve --help` (an underscore stands for a hyphen), and SGLang's server arguments.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from ci_doctor.checks.gpu.visible_devices import VARIABLE
from ci_doctor.services.spec import ServiceSpec

# What vLLM takes if nobody says more: 0.9, and 0.92 in versions of 2026. The lesser one is sure.
VLLM_SHARE: Final = 0.9
_SHARE: Final = ("--gpu-memory-utilization", "--mem-fraction-static")
_TENSOR: Final = ("--tensor-parallel-size", "-tp", "--tp-size", "--tp")
_PIPELINE: Final = ("--pipeline-parallel-size", "-pp", "--pp-size", "--pp")
# vLLM alone: SGLang's data parallelism may share the GPUs of one group.
_DATA: Final = ("--data-parallel-size", "-dp")


class GpuEngine(StrEnum):
    """What serves the model."""

    VLLM = "vLLM"
    SGLANG = "SGLang"


class GpuDemand(Struct, frozen=True, kw_only=True):
    """What one service asks for.

    `share` is the part (0 to 1) of each GPU's memory, None if the engine decides. `gpus` is how
    many it uses. `visible` is CUDA_VISIBLE_DEVICES of the service alone, None for the job's.
    """

    service: str
    engine: GpuEngine
    share: float | None
    gpus: int
    visible: str | None


def demands_of(services: Mapping[str, ServiceSpec]) -> tuple[GpuDemand, ...]:
    """The demand of each service that is known to use GPUs, in the order of the configuration."""
    demands = []
    for name, spec in services.items():
        demand = _demand(name, spec)
        if demand is not None:
            demands.append(demand)
    return tuple(demands)


def _demand(name: str, spec: ServiceSpec) -> GpuDemand | None:
    try:
        words = list(_flat(spec.words()))
    except ValueError:  # an unclosed quotation, which the launch reports
        return None
    engine = _engine(words)
    if engine is None or _option(words, ("--device",)) == "cpu":
        return None
    share = _fraction(_option(words, _SHARE))
    if share is None and engine is GpuEngine.VLLM:
        share = VLLM_SHARE
    tensor = _whole(_option(words, _TENSOR))
    pipeline = _whole(_option(words, _PIPELINE))
    data = 1
    if engine is GpuEngine.VLLM:
        data = _whole(_option(words, _DATA))
    return GpuDemand(
        service=name,
        engine=engine,
        share=share,
        gpus=tensor * pipeline * data,
        visible=_visible(spec),
    )


def _visible(spec: ServiceSpec) -> str | None:
    value = spec.env.get(VARIABLE)
    if value is not None and "{" in value:  # known when the service is launched
        return None
    return value


def _flat(words: Sequence[str]) -> Iterator[str]:
    """The words, and those of a script after `-c`."""
    for before, word in zip(["", *words], words, strict=False):
        if before == "-c":
            yield from shlex.split(word)
        else:
            yield word


def _engine(words: Sequence[str]) -> GpuEngine | None:
    for word in words:
        program = word.rpartition("/")[2]
        if word.startswith("vllm.entrypoints") or (program == "vllm" and "serve" in words):
            return GpuEngine.VLLM
        if word.startswith("sglang.") or (program == "sglang" and "serve" in words):
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
    if not 0 < value <= 1:
        return None
    return value


def _whole(text: str | None) -> int:
    """A number of GPUs; 1 for what is none."""
    if text is None or not (text.isascii() and text.isdigit()):
        return 1
    return max(1, int(text))
