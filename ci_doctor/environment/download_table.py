# SPDX-License-Identifier: Apache-2.0
"""Where weights and packages are downloaded to, which starts share. Pure.

Each variable is that of its library. Without it the place follows XDG_CACHE_HOME or TMPDIR, so a
start with an XDG_CACHE_HOME of its own would download everything again.
"""

from collections.abc import Mapping
from pathlib import Path

from ci_doctor.environment.cache_table import default_directory

# The variable, its default, and what in that directory is downloaded ("" is all of it).
_TABLE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("HF_HOME", "$XDG_CACHE_HOME/huggingface", ("hub", "xet", "datasets", "modules", "assets")),
    ("TORCH_HOME", "$XDG_CACHE_HOME/torch", ("hub",)),
    ("MODELSCOPE_CACHE", "$XDG_CACHE_HOME/modelscope", ("",)),
    ("LLAMA_CACHE", "$XDG_CACHE_HOME/llama.cpp", ("",)),
    ("PIP_CACHE_DIR", "$XDG_CACHE_HOME/pip", ("",)),
    ("UV_CACHE_DIR", "$XDG_CACHE_HOME/uv", ("",)),
    ("TIKTOKEN_CACHE_DIR", "$TMPDIR/data-gym-cache", ("",)),
    ("TIKTOKEN_RS_CACHE_DIR", "$TMPDIR/tiktoken-rs-cache", ("",)),
    ("VLLM_ASSETS_CACHE", "$XDG_CACHE_HOME/vllm/assets", ("",)),
)
# Of more variables, of which libraries have none but XDG_CACHE_HOME.
_MORE = ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_DATASETS_CACHE", "SENTENCE_TRANSFORMERS_HOME")


def shared_downloads(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that keep downloads where a process with `environ` has them.

    Those that `environ` sets, and those whose default is unknown without a home directory, are
    left out.
    """
    variables = {}
    for variable, default, _ in _TABLE:
        directory = default_directory(default, environ)
        if directory is not None and not environ.get(variable):
            variables[variable] = str(directory)
    return variables


def download_places(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The directories in which a process with `environ` finds what was downloaded."""
    places = []
    for variable, default, within in _TABLE:
        named = environ.get(variable)
        directory = Path(named) if named else default_directory(default, environ)
        if directory is not None:
            places += [directory / each for each in within]
    places += [Path(environ[variable]) for variable in _MORE if environ.get(variable)]
    return tuple(places)
