# SPDX-License-Identifier: Apache-2.0
"""What each command reports on a small fixed input, against approved files; UPDATE_GOLDEN=1 approves anew.

A file of tests/golden/commands has, for each command line, the exit code, the text, report.md, and report.json. What
differs from run to run or from machine to machine stands as a word in angle brackets.
"""

import json
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.cli import BARE, ROOT, doctor, inside, installed_from
from tests.support.git_repository import git, make_repository
from tests.support.golden import assert_matches_golden
from tests.support.junit_texts import junit_of
from tests.support.snapshots import a_snapshot

pytestmark = pytest.mark.integration
PROGRAMS = ROOT / "tests" / "support" / "programs"
EXAMPLES = ROOT / "examples"

_TEXT = (
    (r"(127\.0\.0\.1|localhost):\d+", r"\1:<port>"),
    (r"(\.py\\?\"?,\s+│?\s*line\s+│?\s*)\d+", r"\1<line>"),
    (r"\b127\.0\.0\.1\b", "<local>"),
    (r"\bin \d+\.\d+s\b", "in <duration>"),
    (r"(?m)^plugins: .*$", "plugins: <plugins>"),
    (r"\bcpython-3\d+\b", "cpython-<version>"),
    (r"\bg?[0-9a-f]{40}\b", "<hex>"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|\+00:00| UTC)?", "<time>"),
    (r"\d+\\?\.\d+\\?\.\d+(\.dev\d+)?(\+g[0-9a-f]+)?(\.d\d{8})?", "<version>"),
    (r"\b(cpython|Python|python) ?3\.\d+\b", r"\1 <version>"),
    (r"\b(\d+ (h|min) )?\d+(\\?\.\d+)? (ms|s|min|h)\b", "<duration>"),
    (r"\b\d+(\\?\.\d+)? (bytes|KiB|MiB|GiB|kB|MB|GB)(/s)?", "<size>"),
    (r"\b(pid|PID|process) \d+", r"\1 <pid>"),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uuid>"),
    (r"\b[0-9a-f]{12,}\b", "<hex>"),
    (r"\bport \d+", "port <port>"),
    (r"0x[0-9a-f]+", "<address>"),
    (r"(?<![\w.])\d{4,}\b", "<number>"),
    (r"\b\d+\\?\.\d+\b", "<number>"),
    (r"\bthroughput( \|)? \d+ %", r"throughput\1 <share>"),
    (r"(\\?< )?<duration>", "<duration>"),
    # Whether both arms took about the same.
    (r"<duration> \(baseline\) and <duration> \(candidate\)", "<duration>"),
    (r"--budget \S+", "--budget <duration>"),
    (r"about (<number>|\d+) starts", "about <number> starts"),
    # A run that ends at once may end before its environment was read.
    (r"(?m)^.*environment\.json.*\n", ""),
    (r"(?m)^(\*\*)?(Not added to this report|Attachments)(\*\*)?\n\s*\n", ""),
    # Whatever else the machine does writes into the folders that experiments watch.
    (r"\*\*(Shared|Changed) files\*\*\n\n(\|.*\n)+\n", ""),
    (r"(?m)^(Shared|Changed) files\n(.+\n)+\n", ""),
)
# By the key of report.json: the type stays.
_VOLATILE = re.compile(
    r"(_s|_us|_ms|_ns|^seconds|^at$|^shared$|^unknown$|_at|_kb|_mb|_bytes|_per_s|_ratio|pid$|^pids|^port|^ports|^seed|^started|^ended|duration|^machine"
    r"|^identity|^host|^cpu|^kernel|^peak|throughput|^p\d\d|^median|elapsed|^interpreter|fingerprint|^digest)",
)

# Steps that are shown once a command has taken two seconds, as on a busy machine.
_LATE = re.compile(
    r"^(reading \S+|comparing files|opening .+|(sav|restor)ing [\w-]+|starts of the interpreter|.+: a trial import"
    r"|.+; waiting for .+|waiting for .+|looking for .+|read [\d,]+ of [\d,]+ files"
    r"|.+: (run \d+ of \d+|\d+ of at most \d+ s))\n",
    re.MULTILINE,
)
_BY_CHANCE = {
    "Shared files",
    "Changed files",
    "Not added to this report",
    "the environment of this run",
}
_MOST_LETTERS = 600


def _stable(text: str, folder: Path) -> str:
    # An environment may lie in the checkout, or elsewhere.
    known_places = (
        (sys.executable, "<python>"),
        (sys.prefix, "<prefix>"),
        (folder, "<folder>"),
        (ROOT, "<root>"),
    )
    for known, name in known_places:
        text = text.replace(str(known), name)
    text = re.sub(rf"(?<![0-9a-f]){os.getpid()}(?![0-9a-f])", "<pid>", text)
    for pattern, name in _TEXT:
        text = re.sub(pattern, name, text)
    return text


def _unwrapped(text: str) -> str:
    """A line for each paragraph: where a line breaks depends on how long a time or a path is."""
    paragraphs = re.split(r"\n\s*\n", text.replace("│", " ").strip())
    return "\n\n".join(re.sub(r"\s+", " ", each).strip() for each in paragraphs)


def _stable_value(value: Any, key: str, folder: Path) -> Any:
    if isinstance(value, dict):
        if value.get("unit") is not None:  # a measured value of a table
            return {"value": "<measured>", "unit": value["unit"]}
        return {
            name: _stable_value(each, name, folder)
            for name, each in value.items()
            if name not in {"/tmp", "/dev/shm"}  # of other programs
        }
    is_volatile = value not in (None, [], {}) and _VOLATILE.search(key)
    # Other programs write files, too.
    if isinstance(value, float) or is_volatile or key == "shared":
        return f"<{type(value).__name__}>"
    if isinstance(value, list):
        return [
            _stable_value(each, key, folder)
            for each in value
            if not (isinstance(each, dict) and each.get("title") in _BY_CHANCE)
        ]
    if isinstance(value, str):
        text = "<number>" if value.isdigit() else _stable(value, folder)
        return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}…"
    return value


class Site:
    """A folder where commands run one after another, and the story of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.story: list[str] = []

    def put(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text)

    def program(self, name: str, *words: str) -> str:
        """The command of a program of tests/support, with the folder as its last word.

        A copy runs: where a long path breaks in an excerpt depends on where the checkout lies.
        """
        copied = self.folder / "programs"
        left_out = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PROGRAMS, copied, dirs_exist_ok=True, ignore=left_out)
        return shlex.join([*BARE, str(copied / f"{name}.py"), *words, str(self.folder)])

    def run(
        self,
        *words: str | Path,
        env: Mapping[str, str | None] | None = None,
        chance: Mapping[str, str] | None = None,
    ) -> None:
        """Run `ci-doctor WORDS`; its report goes into a directory, if it makes one.

        `chance` has patterns for what only chance decides here, and what to write instead.
        """
        out = self.folder / "report-of-a-golden"
        env = {"CI_DOCTOR_REPORT_DIR": str(out), **(env or {})}
        # One becomes its command, the other looks for itself among the modules.
        as_process = words[0] in {"run", "init"}
        ran = (doctor if as_process else inside)(*words, cwd=self.folder, env=env)
        parts = [f"$ ci-doctor {shlex.join(map(str, words))}\nexit code {ran.code}"]
        for name, text in (("stdout", ran.out), ("stderr", _LATE.sub("", ran.err))):
            if text.strip():
                parts.append(f"--- {name}\n{_unwrapped(_stable(text, self.folder))}")
        parts += [
            f"--- report.md\n{_stable(path.read_text(), self.folder).strip()}"
            for path in sorted(out.rglob("report.md"))
        ]
        for path in sorted(out.rglob("report.json")):
            report = _stable_value(json.loads(path.read_text()), "", self.folder)
            parts.append(f"--- report.json\n{json.dumps(report, indent=1, ensure_ascii=False)}")
        shutil.rmtree(out, ignore_errors=True)
        text = _stable("\n".join(parts), self.folder)
        for pattern, name in (chance or {}).items():
            text = re.sub(pattern, name, text)
        self.story.append(text)


@pytest.fixture
def site() -> Iterator[Site]:
    # The length of the path decides no line.
    with tempfile.TemporaryDirectory(prefix="ci-doctor-golden-") as folder:
        # Markdown escapes some of the letters that the name of a temporary folder may have.
        alias = Path(folder).resolve().with_name(f"golden{secrets.token_hex(6)}")
        Path(folder).rename(alias)
        yield Site(alias)
        alias.rename(folder)


def lint(site: Site) -> None:
    shutil.copytree(EXAMPLES / "lint" / "before", site.folder, dirs_exist_ok=True)
    site.run("lint", "ci")
    site.run("lint", "ci", "--fix", "--dry-run")
    site.run("lint", "nothing")


def diagnose(site: Site) -> None:
    for name in ("client.log", "server.log"):
        shutil.copy(EXAMPLES / "diagnose" / name, site.folder)
    site.put({"empty.log": "", "calm.log": "all is well\n"})
    site.run("diagnose", "client.log", "server.log")
    site.run("diagnose", "empty.log", "calm.log")


def build_merge(site: Site) -> None:
    shutil.copytree(EXAMPLES / "build" / "reports", site.folder / "reports")
    site.run("build", "merge", "reports", "--expect", "lint", "--expect", "absent")
    (site.folder / "nothing").mkdir()
    site.run("build", "merge", "nothing")


def compat(site: Site) -> None:
    site.put(
        {
            "caller/caller/__init__.py": (
                "import callee\nfrom callee import gone\n\ncallee.kept(1, 2)\ncallee.kept(1)\ncallee.kept(1, 2, third=3)\n"
            ),
            "callee/callee/__init__.py": "def kept(first, second):\n    return first\n",
            "sound/sound/__init__.py": "import callee\n\ncallee.kept(1, 2)\n",
        }
    )
    site.run("compat", "caller", "callee")
    site.run("compat", "sound", "callee")
    site.run("compat", "callee", "sound")


def setup_env(site: Site) -> None:
    toml = '[build-system]\nrequires = ["setuptools", "setuptools-scm"]\nbuild-backend = "setuptools.build_meta"\n'
    project = site.folder / "project"
    make_repository(
        project,
        {
            "pyproject.toml": f'{toml}[project]\nname = "p"\ndynamic = ["version"]\n[tool.setuptools_scm]\n'
        },
    )
    git(project, "tag", "v1.2.3")
    (site.folder / "plain").mkdir()
    words = ("setup-env", "--determinism", "strict", "--python", sys.executable)
    site.run(*words, "--project", "project", "--dry-run")
    site.run(*words, "--project", "project")
    site.run(*words, "--project", "plain")
    site.run(*words, "--project", "absent")


def env_diff(site: Site) -> None:
    green = a_snapshot(
        {"numpy": "2.0.0", "torch": "2.6.0"},
        facts={"gpu.driver": "550"},
        variables={"OMP_NUM_THREADS": "4"},
    )
    red = a_snapshot(
        {"numpy": "2.1.0", "vllm": "0.9.0"},
        facts={"gpu.driver": "560"},
        unknown={"cpu.model": "no file"},
    )
    site.put(
        {
            "green.json": msgspec.json.encode(green).decode(),
            "red.json": msgspec.json.encode(red).decode(),
        }
    )
    site.run("env", "diff", "green.json", "red.json", "--all", "--exit-code")
    site.run("env", "diff", "green.json", "green.json", "--exit-code")


def history(site: Site) -> None:
    site.put(
        {
            "one.xml": junit_of([("test_x", False), ("test_x", True), ("test_z", True)]),
            "two.xml": junit_of([("test_y", True), ("test_x", False)]),
        }
    )
    recent = "--days=100000"
    site.run("history", "ingest", "one.xml", "--about", "commit=abc")
    site.run("history", "ingest", "one.xml", "two.xml", "--about", "commit=abd")
    site.run("history", "flaky", recent)
    site.run("history", "test", "test_x", recent)
    site.run("history", "began", "test_x", recent)
    site.run("history", "quarantine", "suggest", recent)


def cache(site: Site) -> None:
    site.put({"mine/a.cubin": "a" * 300, "mine/b.cubin": "b" * 300})
    (site.folder / "run").mkdir(mode=0o700)
    env = {"XDG_RUNTIME_DIR": str(site.folder / "run"), "HOME": str(site.folder)}
    store = ("--store", "store", "--python", sys.executable, "--family", "mine=mine")
    site.run("cache", "save", *store, env=env)
    shutil.rmtree(site.folder / "mine")
    site.run("cache", "restore", *store, env=env)
    site.run("cache", "verify", "--store", "store", "--family", "mine=mine", env=env)
    site.run("cache", "status", "--store", "store", "--family", "mine=mine", env=env)
    site.run("cache", "restore", *store, "--trust", "signed", env=env)
    site.run("cache", "restore", "--store", "nowhere", *store[2:], "--strict", env=env)
    site.run("cache", "gc", "--store", "store", "--dry-run", env=env)


def own_pytest(site: Site) -> None:
    make_repository(
        site.folder,
        {
            "test_small.py": (
                "from pathlib import Path\n\n\ndef test_once():\n    mark = Path('seen')\n    if not mark.exists():\n"
                "        mark.touch()\n        assert False, 'the first time'\n\n\ndef test_fails():\n    assert 1 == 2\n\n\n"
                "def test_passes():\n    pass\n"
            )
        },
    )
    # The plugins of our own tests are half a second of each start: one run shows them.
    bare = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    line = ("pytest", "--python", sys.executable, "--")
    site.run(*line, "-p", "no:cacheprovider", "-p", "no:randomly", env=bare)
    site.run(*line, "-k", "passes", "-p", "no:cacheprovider")
    site.run(*line, "-k", "none_of_this", "-p", "no:cacheprovider", env=bare)


def _requests(site: Site, count: int) -> None:
    lines = [
        json.dumps({"id": f"r{n}", "body": {"prompt": f"p{n}", "temperature": 0}})
        for n in range(count)
    ]
    site.put({"requests.jsonl": "\n".join(lines) + "\n"})


def _arms(site: Site, candidate: str) -> tuple[str, ...]:
    def server(traits: str) -> str:
        return site.program("serve_model", "{port}", "start={start}", *traits.split())

    return (
        "correctness", "--baseline", server(""), "--candidate", server(candidate), "--requests", "requests.jsonl",
        "--passes", "1", "--policy", "any", "--retries", "1", "--concurrency", "1",
    )  # fmt: skip


def correctness(site: Site) -> None:
    _requests(site, 3)
    site.run(*_arms(site, "flip"), "--report-dir", "run")
    site.run("correctness", "replay", "--run", "run", "--request", "r1")
    site.run(*_arms(site, ""), "--dry-run")


def correctness_passes(site: Site) -> None:
    _requests(site, 3)
    site.run(*_arms(site, ""))
    site.run(*_arms(site, "dies"))


def launch(site: Site) -> None:
    answers = site.program("answers", "{port}")
    service = ("--service", f"s={answers}", "--ready", "s=tcp://127.0.0.1:{port}")
    site.run("launch", *service, "--", "true")
    site.run("launch", *service, "--", "sh", "-c", "exit 7")
    dying = site.program("dies_with_traceback")
    site.run("launch", "--service", f"s={dying}", "--ready", "s=file:never", "--", "true")
    site.run("launch", *service, "--dry-run")


def restart_check(site: Site) -> None:
    _requests(site, 8)
    worker = json.dumps([*BARE, str(PROGRAMS / "serve_worker.py"), "{port}", str(site.folder)])
    site.put(
        {
            "ci-doctor.toml": (
                f'[services.worker]\ncommand = {worker}\n[restart-check]\nservices = ["worker"]\nkill = "worker"\n'
                'requests = "requests.jsonl"\nconcurrency = 1\noutage = "300ms"\nrequest_timeout = "5s"\n'
                'release_timeout = "2s"\nrecovery_timeout = "10s"\nthroughput = 0\nbudget = "60s"\ncontrol_starts = 0\n'
            )
        }
    )
    site.run("restart-check", "--dry-run")
    # Figures of a real restart are chance: tests/integration/test_restart_check.py has them.


def import_race(site: Site) -> None:
    site.put(
        {
            "main.py": (
                "import threading\nimport lazy\n\n\ndef work():\n    import json.tool\n\n\n"
                "thread = threading.Thread(target=work)\nthread.start()\nthread.join()\n"
            ),
            "lazy.py": "import sys, types\nsys.modules[__name__] = types.ModuleType(__name__)\n",
        }
    )
    # How many modules a start of Python imports.
    modules = {
        r"<version>( \| | )\d+\b": r"<version>\1<modules>",
        r"\(\d\d modules": "(<count> modules",
        r"\"(value|loaded)\": \d\d\b": r'"\1": <modules>',
        # A process may well have a small number.
        r"(command |\| )\d+(?=( \|)? <version>)": r"\1<number>",
    }
    site.run("import-race", "--", sys.executable, "main.py", chance=modules)
    site.run("import-race", "--", "true")


def preload(site: Site) -> None:
    if (Path(sysconfig.get_path("stdlib")) / "sitecustomize.py").exists():
        pytest.skip("this Python brings a sitecustomize of its own, as Debian's does")
    # An interpreter of its own: what else starts with the tests' one is no matter of this file.
    venv.create(site.folder / "venv", symlinks=True)
    python = site.folder / "venv" / "bin" / "python"
    site.run("preload", "install", "--dry-run", "--python", python, "json=csv")
    site.run("preload", "install", "--python", python, "json=csv")
    site.run("preload", "status", "--python", python)
    site.run("preload", "remove", "--python", python)


def wait(site: Site) -> None:
    site.put({"there": ""})
    # Its name is the same wherever the tests run.
    with subprocess.Popen(["sleep", "600"]) as process:
        pid = str(process.pid)
        for file in ("there", "absent"):
            words = ("wait", "--pid", pid, "--ready", f"file:{file}", "--timeout", "0")
            site.run(*words, chance={rf"\b{pid}\b|<number>": "<pid>"})
        process.kill()
    site.run("wait", "--ready", "file:there", "--timeout", "0")


def run(site: Site) -> None:
    # A busy machine reads the 170 packages of the tests' own environment too late for the report.
    venv.create(site.folder / ".venv", symlinks=True)
    site.run("run", "--", "sh", "-c", "exit 3")
    full = "echo 'OSError: [Errno 28] No space left on device'; exit 3"
    site.run("run", "--diagnose", "--", "sh", "-c", full)
    site.run("run", "--dry-run", "--", "true")


def init(site: Site) -> None:
    make_repository(
        site.folder,
        {
            "ci/serve.sh": "vllm serve some/model --port 8000 &\ncurl localhost:8000/health\n",
            "pyproject.toml": '[project]\nname = "small"\nversion = "1"\ndependencies = ["vllm"]\n',
        },
    )
    # tests/unit/test_docs.py has the schema, which changes with each key.
    schema = r"(?s)ci-doctor\.schema\.json new file.*?(?=diff --git)"
    with tempfile.TemporaryDirectory() as elsewhere:
        env = installed_from(Path(elsewhere) / "site")
        site.run("init", "--dry-run", env=env, chance={schema: "ci-doctor.schema.json "})


def words(site: Site) -> None:
    site.put(
        {
            "ci-doctor.toml": '[pytest]\nrerun_budget = "9s"\n',
            "broken.toml": "[pytest]\nrerunz = 1\n",
        }
    )
    for each in ("flaky", "86", "build/cause"):
        site.run("explain", each)
    site.run("config", "show")
    site.run("config", "show", "--config", "broken.toml")
    site.run("lint", "--no-such-option")


def report(site: Site) -> None:
    shutil.copytree(EXAMPLES / "lint" / "before", site.folder, dirs_exist_ok=True)
    for folder in ("one", "two"):
        inside("lint", "ci", "--report-dir", folder, cwd=site.folder)
    site.run("report", "one", "two")
    site.run("report", "absent")


def doctor_list(site: Site) -> None:
    site.run("doctor", "--list")
    site.run("doctor", "no-such-check")


CASES: tuple[Callable[[Site], None], ...] = (
    lint, diagnose, build_merge, compat, setup_env, env_diff, history, cache, own_pytest, correctness, launch,
    restart_check, import_race, preload, wait, run, init, words, report, doctor_list,
)  # fmt: skip
NIGHTLY: tuple[Callable[[Site], None], ...] = (correctness_passes,)


def test_a_commit_with_the_digits_of_a_process_is_a_commit(tmp_path: Path) -> None:
    commit = f"{os.getpid()}".ljust(40, "e")

    assert _stable(f"origin@{commit} of {os.getpid()}", tmp_path) == "origin@<hex> of <pid>"


@pytest.mark.parametrize(
    "case",
    [
        *(pytest.param(case, id=case.__name__) for case in CASES),
        *(pytest.param(case, id=case.__name__, marks=pytest.mark.nightly) for case in NIGHTLY),
    ],
)
def test_a_command_reports_what_was_approved(case: Callable[[Site], None], site: Site) -> None:
    case(site)

    assert_matches_golden("\n\n".join(site.story) + "\n", f"commands/{case.__name__}.txt")
