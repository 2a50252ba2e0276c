# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: what to do about an entry point that fails, by the cause of its end."""

import re
import shlex
from typing import Final

from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.entry_points.entry_point import EntryCommand
from ci_doctor.model.cause import Cause
from ci_doctor.model.finding import NextStep, ShellCommand

_NAME_MISSING: Final = "import/name-missing"
_MODULE_MISSING: Final = "import/module-missing"
_LIBRARY_MISSING: Final = "import/shared-library-missing"
_RECHECK_S: Final = 20.0
# The one reliable list: what such a module is never installed as. A name that an error message
# brings is not installed untold (dependency confusion).
_DISTRIBUTIONS: Final = {
    "PIL": "pillow",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "flashinfer": "flashinfer-python",
    "git": "gitpython",
    "google.protobuf": "protobuf",
    "grpc": "grpcio",
    "jwt": "pyjwt",
    "multipart": "python-multipart",
    "pkg_resources": "setuptools<82",
    "pynvml": "nvidia-ml-py",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
    "zmq": "pyzmq",
}
# The number in `libcudart.so.13` is the major version of CUDA.
_LIBRARY: Final = re.compile(r"\blib[\w+-]+\.so(?:\.\d+)*")


def remedy_of(entry: EntryCommand, cause: Cause, context: CheckContext) -> NextStep:
    """What to do, as a command if one can be pasted."""
    if cause.rule == _NAME_MISSING and _is_race(entry, cause, context):
        return _preload(entry, cause)
    if cause.rule == _MODULE_MISSING:
        return _install(entry, cause)
    if cause.rule == _LIBRARY_MISSING:
        library = _LIBRARY.search(cause.place.text)
        if library is not None:
            return _find(library[0], cause)
    return cause.remedy


def _is_race(entry: EntryCommand, cause: Cause, context: CheckContext) -> bool:
    """Whether the import that failed works by itself in a fresh process."""
    module, name = cause.fields.get("module"), cause.fields.get("name")
    if entry.python is None or entry.module is None or not module or not name:
        return False
    words = [str(entry.python), "-c", f"from {module} import {name}"]
    environ = {**context.environ, **entry.env}
    ran = context.programs.run(
        words, cwd=entry.cwd or context.cwd, environ=environ, timeout_s=_RECHECK_S
    )
    return ran.exit_code == 0


def _preload(entry: EntryCommand, cause: Cause) -> ShellCommand:
    rule = f"{entry.module}={cause.fields['module']}:{cause.fields['name']}"
    words = ["ci-doctor", "preload", "install", "--python", str(entry.python), "--rule", rule]
    return ShellCommand(shlex.join(words))


def _install(entry: EntryCommand, cause: Cause) -> NextStep:
    module = cause.fields.get("module", "")
    known = _DISTRIBUTIONS.get(module) or _DISTRIBUTIONS.get(module.partition(".")[0])
    if known is None or entry.python is None:
        return f"Install the distribution that has the module `{module}`. {cause.remedy}"
    return ShellCommand(shlex.join([str(entry.python), "-m", "pip", "install", known]))


def _find(library: str, cause: Cause) -> str:
    return f"{library} is missing: `ldconfig -p | grep {library}` shows where it is. {cause.remedy}"
