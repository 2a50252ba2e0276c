# SPDX-License-Identifier: Apache-2.0
"""Reads the GPUs that a job sees: the facts by which a cache's validity is decided."""

from ci_doctor.caches.families.unknown_fact import UnknownFactError
from ci_doctor.machine.gpus import GpuView
from ci_doctor.machine.nvidia_smi import Gpu

_NONE = "none"


class GpuFacts:
    """The GPUs that a job sees, as `gpu_view` has read them; None without NVIDIA's driver."""

    def __init__(self, view: GpuView | None) -> None:
        self._view = view

    def names(self) -> str:
        """Different models in alphabetical order; `none` without a GPU. Raises UnknownFactError."""
        return self._each("name", [gpu.name for gpu in self._gpus()])

    def capability(self) -> str:
        """Such as `9.0`; `none` without a GPU. Raises UnknownFactError."""
        return self._each("capability", [gpu.capability for gpu in self._gpus()])

    def driver(self) -> str:
        """Its version; `none` without a GPU. Raises UnknownFactError."""
        if self._view is None:
            return _NONE
        return self._each("driver", [self._view.driver])

    def _gpus(self) -> tuple[Gpu, ...]:
        """Raises UnknownFactError for a MIG device of which nothing is known."""
        if self._view is None:
            return ()
        visible = self._view.visible()
        if visible.parts:
            raise UnknownFactError(f"nothing is known of the MIG device {visible.parts[0]}")
        return visible.gpus

    def _each(self, name: str, values: list[str | None]) -> str:
        known = {value for value in values if value is not None}
        if len(known) < len(set(values)):
            raise UnknownFactError(f"neither NVIDIA's library nor nvidia-smi gives the {name}")
        return ", ".join(sorted(known)) or _NONE
