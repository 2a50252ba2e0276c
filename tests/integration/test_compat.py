# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor compat` on real files: local trees, and releases of an index with and without ranges."""

import hashlib
import http.server
import io
import json
import os
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import doctor

pytestmark = pytest.mark.integration


def wheel(name: str, version: str, source: str) -> bytes:
    """A wheel of one package, with a compiled part that nobody needs."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(f"{name}/_kernels.so", bytes(3_000_000))
        archive.writestr(f"{name}/__init__.py", "")
        archive.writestr(f"{name}/api.py", source)
        info = f"{name}-{version}.dist-info"
        archive.writestr(f"{info}/METADATA", f"Name: {name}\nVersion: {version}\n\n")
    return content.getvalue()


@contextmanager
def index(files: dict[str, bytes], *, ranges: bool) -> Iterator[tuple[str, list[int]]]:
    """A simple index (PEP 691) of these wheels; the list gets the bytes of each answer."""
    sent: list[int] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body, headers = self.answer()
            self.send_response(status)
            for key, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(key, value)
            self.end_headers()
            sent.append(len(body))
            self.wfile.write(body)

        def answer(self) -> tuple[int, bytes, dict[str, str]]:
            kind, _, name = self.path.strip("/").partition("/")
            if kind == "simple":
                return (
                    200,
                    page(files, name),
                    {"Content-Type": "application/vnd.pypi.simple.v1+json"},
                )
            body = files[name]
            asked = self.headers.get("Range")
            if not ranges or asked is None:
                return 200, body, {}
            first, last = asked.removeprefix("bytes=").split("-")
            part = body[int(first) : int(last) + 1]
            return 206, part, {"Content-Range": f"bytes {first}-{last}/{len(body)}"}

        def log_message(self, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/simple", sent
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def page(files: dict[str, bytes], project: str) -> bytes:
    """The page of one project."""
    listed = [
        {"filename": name, "url": f"/files/{name}", "hashes": {"sha256": hashlib.sha256(content).hexdigest()}}
        for name, content in files.items()
        if name.startswith(f"{project}-")
    ]  # fmt: skip
    return json.dumps({"files": listed}).encode()


FILES = {
    "engine-1.0-py3-none-any.whl": wheel("engine", "1.0", "def start(url): ...\n"),
    "engine-1.1-py3-none-any.whl": wheel("engine", "1.1", "def start(url, role): ...\n"),
    "adapter-2.0-py3-none-any.whl": wheel(
        "adapter", "2.0", "from engine.api import start\nstart('u')\n"
    ),
}


@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "no ranges"])
@pytest.mark.gate(1)
def test_the_matrix_names_the_pairs_that_work_and_the_break_of_the_others(
    tmp_path: Path, ranges: bool
) -> None:
    with index(FILES, ranges=ranges) as (address, sent):
        env = {
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_INDEX_URL": address,
            "XDG_CACHE_HOME": str(tmp_path),
        }
        command = ("compat", "--matrix", "adapter==2.*", "engine==1.[01]", "--json")
        first = doctor(*command, cwd=tmp_path, env=env)
        fetched, before = sum(sent), len(sent)
        second = doctor(*command, cwd=tmp_path, env=env)

    report = json.loads(first.out)
    pairs = report["facts"]["pairs"]
    assert first.code == 1
    assert [bool(each["directions"][0]["breaks"]) for each in pairs] == [False, True]
    (broken,) = pairs[1]["directions"][0]["breaks"]
    assert "needs `role`" in broken["sentence"]
    assert broken["changed_by"] == "engine 1.1; engine 1.0 does not break here"
    assert broken["before"]["text"] == "start(url)"
    # Ranges leave the compiled parts of 3 MB each on the server.
    assert (fetched < 4_000_000) is ranges
    assert json.loads(second.out)["facts"] == report["facts"]
    assert len(sent) - before == 2  # the pages of the two projects; files come from the cache


def test_a_break_between_two_directories_fails_and_gives_the_definition(tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "__init__.py").write_text("def start(url, role): ...\n")
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "run.py").write_text("import engine\nengine.start('u')\n")

    ran = doctor("compat", str(tmp_path / "app"), str(tmp_path / "engine"), cwd=tmp_path)

    assert ran.code == 1
    assert "run.py:2" in ran.out
    assert "now: start(url, role)" in ran.out


def test_two_packages_that_have_nothing_to_do_with_each_other_are_inconclusive(
    tmp_path: Path,
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("def f(): ...\n")

    ran = doctor("compat", str(tmp_path / "one"), str(tmp_path / "two"), cwd=tmp_path)

    assert ran.code == 86
    assert "no place could be judged" in " ".join(ran.out.split())  # long paths fold the line


def test_without_the_extra_it_names_the_command_that_installs_it(tmp_path: Path) -> None:
    # A finder in front of all others, as in an environment without the package.
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\nreal = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'griffe' else real(name, *more)\n"
    )
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])

    ran = doctor("compat", "ci_doctor", "click", cwd=tmp_path, env={"PYTHONPATH": path})

    assert ran.code == 2
    assert "pip install 'ci-doctor-toolkit[compat]'" in ran.err
