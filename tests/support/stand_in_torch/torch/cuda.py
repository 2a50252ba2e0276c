# SPDX-License-Identifier: Apache-2.0
"""torch.cuda."""

from types import TracebackType
from typing import Any

from .behaviour import BEHAVIOUR


class OutOfMemoryError(RuntimeError):
    """torch.cuda.OutOfMemoryError."""


class Properties:
    """What get_device_properties gives."""

    def __init__(self, index: int) -> None:
        self.name = "NVIDIA H200"


class device:  # noqa: N801
    """torch.cuda.device, and for the test's purpose stream, too."""

    def __init__(self, index: Any) -> None:
        self.index = index

    def __enter__(self) -> None:
        """Nothing is current here."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing was."""


stream = device


class Stream:
    """torch.cuda.Stream."""

    def __init__(self, device: Any = None) -> None:
        self.device = device


def init() -> None:
    """Raise what a driver that is too old makes it raise."""
    if "no_driver" in BEHAVIOUR:
        raise RuntimeError(BEHAVIOUR["no_driver"])


def device_count() -> int:
    """How many GPUs."""
    count: int = BEHAVIOUR["devices"]
    return count


def get_device_properties(index: int) -> Properties:
    """Of one GPU."""
    return Properties(index)


def synchronize(device: Any = None) -> None:
    """Nothing is pending here."""
