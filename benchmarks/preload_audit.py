# SPDX-License-Identifier: Apache-2.0
"""What `ci-doctor preload audit` finds in published packages, and how long it takes.

    python benchmarks/preload_audit.py                 downloads the wheels (no dependencies) and audits each
    python benchmarks/preload_audit.py --python PY     audits what that interpreter has instead
    python benchmarks/preload_audit.py --record        also appends the table to benchmarks/RESULTS.md

`places` are calls in the package's whole source that make threads by a name of the standard library: an upper bound for
what entry points can reach. `found` are thread starts that they reach, `certain` those on a way without conditions and
without a function that somebody else calls, `racing` those with an import that the import lock does not settle.
"""

import argparse
import ast
import os
import platform
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from ci_doctor.errors import CiDoctorError  # noqa: E402
from ci_doctor.preload.audit.audited import audit_package  # noqa: E402
from ci_doctor.preload.audit.module_code import parse  # noqa: E402
from ci_doctor.preload.audit.package_audit import AuditRequest, PackageAudit  # noqa: E402
from ci_doctor.preload.audit.sources import SourceTree  # noqa: E402

RESULTS = Path(__file__).with_name("RESULTS.md")
TIMEOUT_S = 300.0
# Applications with scripts, and libraries with the call by which they begin.
PACKAGES = {
    "apscheduler": ("apscheduler.schedulers.background:BackgroundScheduler.start",),
    "celery": (),
    "comet-ml": (),
    "concurrent-log-handler": (),
    "ddtrace": (),
    "distributed": ("distributed.client:Client",),
    "gunicorn": (),
    "hypercorn": (),
    "huggingface_hub": ("huggingface_hub._snapshot_download:snapshot_download",),
    "ipykernel": (),
    "joblib": (),
    "jupyter_client": (),
    "lmcache": (),
    "locust": (),
    "loguru": (),
    "newrelic": ("newrelic.config:initialize",),
    "opentelemetry-sdk": ("opentelemetry.sdk.trace.export:BatchSpanProcessor",),
    "posthog": ("posthog.client:Client",),
    "prometheus_client": ("prometheus_client.exposition:start_wsgi_server",),
    "pymongo": ("pymongo.synchronous.mongo_client:MongoClient",),
    "sentry-sdk": ("sentry_sdk:init",),
    "sglang": (),
    "statsd": (),
    "streamlit": (),
    "tqdm": ("tqdm.std:tqdm",),
    "uvicorn": (),
    "wandb": (),
    "watchdog": (),
}
_CERTAIN = {"at import", "when run"}
_MAKERS = {
    "Thread",
    "Timer",
    "ThreadPoolExecutor",
    "ThreadPool",
    "start_new_thread",
    "to_thread",
    "run_in_executor",
}


class Audited(NamedTuple):
    """A row of the table."""

    package: str
    version: str
    modules: int
    places: int
    found: int
    certain: int
    racing: int
    seconds: float
    note: str

    @property
    def row(self) -> str:
        """As Markdown."""
        cells = [str(cell) for cell in self]
        cells[7] = f"{self.seconds:.1f}"
        return f"| {' | '.join(cells)} |"


def environment(directory: Path, packages: Sequence[str]) -> Path:
    """An interpreter with the source of the packages, without what they depend on."""
    venv.create(directory / "venv", with_pip=False)
    (site,) = (directory / "venv").glob("lib/python3*/site-packages")
    for package in packages:
        wheels = directory / "wheels" / package
        words = ("download", "--quiet", "--no-deps", "--only-binary", ":all:", "-d", str(wheels))
        command = [sys.executable, "-m", "pip", *words, package]
        if subprocess.run(command, check=False, timeout=600).returncode:
            continue
        for wheel in wheels.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                named = [name for name in archive.namelist() if _is_wanted(name)]
                archive.extractall(site, named)
    return directory / "venv" / "bin" / "python"


def _is_wanted(name: str) -> bool:
    return name.endswith(".py") or ".dist-info/" in name


def places_in(audit: PackageAudit) -> int:
    """Calls in the whole source of the package that make a thread by a well-known name."""
    tree = SourceTree(audit.package.path, audit.package.redirected)
    count = 0
    for top in audit.package.tops:
        for module in tree.submodules(top):
            source = tree.read(module)
            code = parse(source, module.name) if source else None
            for node in ast.walk(code) if code else ():
                count += isinstance(node, ast.Call) and _name(node.func) in _MAKERS
    return count


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def audited(python: Path, package: str) -> Audited | None:
    """The row of a package; None if it is not there."""
    began = time.process_time()
    request = AuditRequest(package=package, triggers=PACKAGES[package], timeout_s=TIMEOUT_S)
    try:
        audit = audit_package(python, request)
    except CiDoctorError as error:
        print(f"{package}: {error.message}", file=sys.stderr)
        return None
    seconds = time.process_time() - began
    return Audited(
        package=package,
        version=audit.package.version or "",
        modules=audit.modules,
        places=places_in(audit),
        found=len(audit.starts),
        certain=sum(start.when in _CERTAIN for start in audit.starts),
        racing=sum(bool(start.harmful()) for start in audit.starts),
        seconds=seconds,
        note="cut off" if audit.limits.is_cut else "",
    )


def main() -> None:
    """Audit, print, record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--python", type=Path)
    parser.add_argument("--record", action="store_true", help="append the table to RESULTS.md")
    parser.add_argument("packages", nargs="*", default=list(PACKAGES))
    options = parser.parse_args()
    header = "| package | version | modules | places | found | certain | racing | CPU s | |"
    lines = [header, "|---|---|--:|--:|--:|--:|--:|--:|---|"]
    with tempfile.TemporaryDirectory() as directory:
        python = options.python or environment(Path(directory), options.packages)
        for package in options.packages:
            row = audited(python, package)
            if row is not None:
                lines.append(row.row)
                print(row.row, flush=True)
    if options.record:
        date = datetime.now(UTC).date()
        machine = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.0f}, Python {platform.python_version()}"
        text = "\n".join(("", f"## {date}: preload audit", "", machine, "", *lines, ""))
        with RESULTS.open("a") as file:
            file.write(text)


if __name__ == "__main__":
    main()
