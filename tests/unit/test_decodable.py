# SPDX-License-Identifier: Apache-2.0
import ast
import re
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from packaging.version import Version

import ci_doctor

# Two threads decode into classes of which msgspec knows nothing yet.
_RACE = """
import sys, threading
import msgspec
from ci_doctor.decodable import decodable

sys.setswitchinterval(1e-6)
kinds = []
for number in range(400):
    inner = msgspec.defstruct(f"Inner{number}", [(f"f{field}", "int | None", None) for field in range(12)])
    kinds.append(msgspec.defstruct(f"Outer{number}", [("parts", tuple[inner, ...])]))
text = b'{"parts":[{"f11":1},{"f3":2}]}'
barrier = threading.Barrier(4)


def decode():
    for kind in kinds:
        barrier.wait()
        msgspec.json.decode(text, type=CALL)


threads = [threading.Thread(target=decode) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def _ended(call: str) -> int:
    program = _RACE.replace("CALL", call)
    return subprocess.run([sys.executable, "-c", program], check=False).returncode


def test_threads_that_decode_into_a_new_type_at_once_do_not_end_the_process() -> None:
    assert _ended("decodable(kind)") == 0


@pytest.mark.nightly
@pytest.mark.skipif(
    Version(msgspec.__version__) >= Version("0.23"),
    reason="0.23 ended in none of 60 tries: the door goes once pyproject.toml asks for it",
)
def test_msgspec_itself_still_needs_that() -> None:
    # Whether two threads meet is chance: a busy machine gives them turns.
    assert any(_ended("kind") == -signal.SIGSEGV for _ in range(30))


# What a module with such a call holds: the others need not be parsed.
_CALLS = re.compile(r"msgspec[\s\S]*(convert|[dD]ecode)")


def _types_of_decoders(tree: ast.Module) -> list[ast.expr]:
    """What each call of msgspec in a module decodes or converts into."""
    own = any(
        isinstance(node, ast.ImportFrom)
        and node.module == "msgspec"
        and any(each.name == "convert" for each in node.names)
        for node in ast.walk(tree)
    )
    kinds = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        given = [each.value for each in node.keywords if each.arg == "type"]
        if name == "msgspec.convert" or (own and name == "convert"):
            kinds += node.args[1:2] or given
        elif name.startswith("msgspec.") and name.endswith(".decode"):
            kinds += given
        elif name.startswith("msgspec.") and name.endswith(".Decoder"):
            kinds += node.args[:1]
    return kinds


def test_every_type_that_is_decoded_goes_through_the_door() -> None:
    room = Path(ci_doctor.__file__).parent
    decoded = [
        (str(path.relative_to(room)), ast.unparse(kind))
        for path in room.rglob("*.py")
        if path.name != "decodable.py" and _CALLS.search(text := path.read_text())
        for kind in _types_of_decoders(ast.parse(text))
    ]
    assert len(decoded) > 50
    assert [each for each in decoded if not each[1].startswith("decodable(")] == []
