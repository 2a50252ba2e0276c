# SPDX-License-Identifier: Apache-2.0
"""Stands for transformers: while it is imported it puts another object in its own place in sys.modules."""

import sys
import time
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what a type checker shall see

    class GenerationConfig:
        """Made when it is first asked for."""

    class PretrainedConfig:
        """Made when it is first asked for."""


# What the real package reads meanwhile takes 0.6 to 2.8 s.
time.sleep(0.4)


class LazyModule(types.ModuleType):
    """What importers get once this file has run."""

    def __getattr__(self, name: str) -> Any:
        if name in {"GenerationConfig", "PretrainedConfig"}:
            return type(name, (), {})
        raise AttributeError(name)


_lazy = LazyModule(__name__)
_lazy.__spec__, _lazy.__path__, _lazy.__file__ = __spec__, __path__, __file__
sys.modules[__name__] = _lazy
