# SPDX-License-Identifier: Apache-2.0
"""Pure. An environment in which the interpreters that a command starts execute files of ours.

A `sitecustomize` on PYTHONPATH is imported by every Python that reads this variable, and so by
spawned, forked and subprocess children. It runs the one that it hides.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ci_doctor.preload.preload_rule import PreloadRule, format_rules

INJECT = "CI_DOCTOR_INJECT"
RULES = "CI_DOCTOR_PRELOAD_RULES"
FOLDER = Path(__file__).parent / "injected"
_SHIM = Path(__file__).parent / "shim"
_PRELOAD_FILES: Final = (
    _SHIM / "_ci_doctor_preload_rt.py",
    _SHIM / "_ci_doctor_preload.py",
    FOLDER / "_ci_doctor_preload_rules.py",
)


def injected(environ: Mapping[str, str], files: Sequence[Path], **variables: str) -> dict[str, str]:
    """`environ` in which every Python executes `files` at its start, besides earlier ones."""
    folder = str(FOLDER)
    before = environ.get("PYTHONPATH")
    # An empty entry stays: it is the working directory. An empty variable has none.
    path = before.split(os.pathsep) if before else []
    entries = [folder, *(entry for entry in path if entry != folder)]
    executed = [*filter(None, environ.get(INJECT, "").split(os.pathsep)), *map(str, files)]
    return {
        **environ,
        "PYTHONPATH": os.pathsep.join(entries),
        INJECT: os.pathsep.join(dict.fromkeys(executed)),
        **variables,
    }


def with_rules(environ: Mapping[str, str], rules: Sequence[PreloadRule]) -> dict[str, str]:
    """`environ` in which every Python preloads by `rules`, besides those that it has already."""
    texts = [*environ.get(RULES, "").split(), *format_rules(rules)]
    return injected(environ, _PRELOAD_FILES, **{RULES: " ".join(dict.fromkeys(texts))})
