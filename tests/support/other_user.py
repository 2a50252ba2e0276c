# SPDX-License-Identifier: Apache-2.0
"""Another user than root, for whom a test runs a command."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
# Where the interpreter lies in root's home: another user, who may read files all the same. What
# /proc tells of other users' processes does not depend on that.
_READER = (*_NOBODY, "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")


def as_nobody() -> tuple[str, ...]:
    """The words before a command line that run it as another user than root; where nothing can, the test is skipped."""
    if shutil.which("setpriv") is not None:
        for words in (_NOBODY, _READER):
            if subprocess.run([*words, sys.executable, "-c", ""], check=False).returncode == 0:
                return words
    pytest.skip("no other user can run this interpreter")


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter; those of pytest are closed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
