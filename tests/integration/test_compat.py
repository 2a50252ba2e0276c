# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor compat` on real files: local trees, and releases of an index."""

import hashlib
import http.server
import io
import json
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import inside

pytestmark = pytest.mark.integration


def wheel(name: str, version: str, source: str) -> bytes:
    """A wheel of one package, with a compiled part that nobody needs."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(f"{name}/_kernels.so", bytes(3_000_000))
        archive.writestr(f"{name}/__init__.py", "")
        archive.writestr(f"{name}/api.py", source)
        info = f"{name}-{version}.dist-info"
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n\n")
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\n"
        )
    return content.getvalue()


@contextmanager
def index(files: dict[str, bytes]) -> Iterator[tuple[str, list[str]]]:
    """A simple index (PEP 691) of these wheels; the list gets the path of each request."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            kind, _, name = self.path.strip("/").partition("/")
            body, media_type = files.get(name, b""), "application/octet-stream"
            if kind == "simple":
                body, media_type = page(files, name), "application/vnd.pypi.simple.v1+json"
            self.send_response(200)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/simple", asked
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
    return json.dumps({"meta": {"api-version": "1.0"}, "name": project, "files": listed}).encode()


FILES = {
    "engine-1.0-py3-none-any.whl": wheel("engine", "1.0", "def start(url): ...\n"),
    "engine-1.1-py3-none-any.whl": wheel("engine", "1.1", "def start(url, role): ...\n"),
    "adapter-2.0-py3-none-any.whl": wheel(
        "adapter", "2.0", "from engine.api import start\nstart('u')\n"
    ),
}

FETCHED = (
    "adapter-2.0-py3-none-any.whl",
    "engine-1.0-py3-none-any.whl",
    "engine-1.1-py3-none-any.whl",
)


@pytest.mark.nightly
def test_the_matrix_names_the_pairs_that_work_and_the_break_of_the_others(
    tmp_path: Path,
) -> None:
    with index(FILES) as (address, asked):
        env = {
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_INDEX_URL": address,
            "XDG_CACHE_HOME": str(tmp_path),
        }
        command = ("compat", "--matrix", "adapter==2.*", "engine<2", "--json")
        first = inside(*command, cwd=tmp_path, env=env)
        before = len(asked)
        second = inside(*command, cwd=tmp_path, env=env)

    report = json.loads(first.out)
    pairs = report["facts"]["pairs"]
    assert first.code == 1
    assert [bool(each["directions"][0]["breaks"]) for each in pairs] == [False, True]
    (broken,) = pairs[1]["directions"][0]["breaks"]
    assert "needs `role`" in broken["sentence"]
    assert json.loads(second.out)["facts"] == report["facts"]
    assert [each for each in asked if each.endswith(".whl")] == [
        f"/files/{name}" for name in FETCHED
    ]
    assert not any(each.endswith(".whl") for each in asked[before:])  # they come from the cache
    kept = [*tmp_path.rglob("ci-doctor/compat/*/*.whl")]
    assert len(kept) == 3
    assert sum(each.stat().st_size for each in kept) < 100_000  # without the compiled parts


def test_a_package_without_a_wheel_is_no_pass(tmp_path: Path) -> None:
    env = {"PIP_CONFIG_FILE": "/dev/null", "PIP_FIND_LINKS": str(tmp_path), "PIP_NO_INDEX": "1"}
    (tmp_path / "engine-1.0.tar.gz").write_bytes(b"")
    (tmp_path / "app.py").write_text("import engine\n")

    for name, code, message in (
        ("engine", 75, "pip downloads no wheel of engine==1.0"),
        ("motor", 2, "pip finds no version of motor"),
    ):
        ran = inside("compat", "--matrix", ".", name, cwd=tmp_path, env=env)

        assert ran.code == code, ran
        assert message in " ".join(ran.err.split())
    # It gives up its distutils for good, if pip is looked for by it.
    hack = sys.modules.get("_distutils_hack")
    assert hack is None or "spec_for_distutils" not in vars(hack.DISTUTILS_FINDER)


@pytest.mark.parametrize(
    ("text", "code"), [("import engine\nthis is no Python\n", 86), ("this is no Python\n", 0)]
)
def test_a_file_that_names_the_callee_and_cannot_be_parsed_is_no_pass(
    tmp_path: Path, text: str, code: int
) -> None:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "__init__.py").write_text("def start(url): ...\n")
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "run.py").write_text("import engine\nengine.start('u')\n")
    (tmp_path / "app" / "broken.py").write_text(text)

    ran = inside("compat", str(tmp_path / "app"), str(tmp_path / "engine"), cwd=tmp_path)

    assert ran.code == code
    assert ("1 file cannot be read" in " ".join(ran.out.split())) == (code == 86)
