# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: what the GPUs of a job are, by their identity, else by nvidia-smi."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from ci_doctor.caches.families.unknown_fact import UnknownFactError
from ci_doctor.identity.identity import Identity
from ci_doctor.system.processes.limited_run import run_limited

_NONE = "none"
_TIMEOUT_S = 15


class GpuFacts:
    """The GPUs that a job sees, as `hardware` has read them."""

    def __init__(self, hardware: Identity, environ: Mapping[str, str]) -> None:
        self._hardware = hardware
        self._environ = environ

    def names(self) -> str:
        """Different models in alphabetical order; `none` without a GPU. Raises UnknownFactError."""
        return self._each("name") or self._query("name")

    def capability(self) -> str:
        """Such as `9.0`; `none` without a GPU. Raises UnknownFactError."""
        return self._each("capability") or self._query("compute_cap")

    def driver(self) -> str:
        """Its version; `none` without a GPU. Raises UnknownFactError."""
        if self._is_absent:
            return _NONE
        return self._hardware.facts.get("driver") or self._query("driver_version")

    @property
    def _is_absent(self) -> bool:
        return "gpu" in self._hardware.facts

    def _each(self, key: str) -> str | None:
        """The different values of all GPUs; None if one of them is unknown."""
        if self._is_absent:
            return _NONE
        facts = self._hardware.facts
        values = {value for name, value in facts.items() if _is_of_gpu(name, key)}
        is_unknown = any(_is_of_gpu(name, key) for name in self._hardware.unknown)
        return None if is_unknown or not values else ", ".join(sorted(values))

    def _query(self, field: str) -> str:
        """One value for all GPUs of the machine: nvidia-smi does not say which ones a job sees."""
        program = shutil.which("nvidia-smi", path=self._environ.get("PATH", ""))
        if program is None:
            raise UnknownFactError("neither NVIDIA's library nor nvidia-smi is there to ask")
        words = [program, f"--query-gpu={field}", "--format=csv,noheader"]
        try:
            run = run_limited(words, timeout_s=_TIMEOUT_S, cwd=Path("/"), environ=self._environ)
        except OSError as error:
            raise UnknownFactError(f"nvidia-smi cannot be started: {error.strerror}") from error
        values = {line.strip() for line in run.output.splitlines() if line.strip()}
        if run.exit_code != 0 or len(values) != 1:
            raise UnknownFactError(f"nvidia-smi does not give one {field} for all GPUs")
        return values.pop()


def _is_of_gpu(name: str, key: str) -> bool:
    gpu, _, own = name.partition(".")
    return gpu.startswith("gpu") and gpu[3:].isdecimal() and own == key
