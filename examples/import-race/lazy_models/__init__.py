# SPDX-License-Identifier: Apache-2.0
"""Stands for transformers: it puts another object into sys.modules in its own place, and loads its parts when they are used."""

import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what a type checker shall see, as transformers has it

    class GenerationConfig:
        """Made when it is first asked for."""


class LazyModule(types.ModuleType):
    """What importers get once this file has run."""

    def __getattr__(self, name: str) -> Any:
        if name == "GenerationConfig":
            return type(name, (), {"max_tokens": 16})
        raise AttributeError(name)


_lazy = LazyModule(__name__)
_lazy.__spec__, _lazy.__path__, _lazy.__file__ = __spec__, __path__, __file__
sys.modules[__name__] = _lazy
