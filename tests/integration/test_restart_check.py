# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor restart-check` on a client, a router and a worker: every promise, kept and broken, and nothing left behind."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_services import listening_process
from tests.support.cli import BARE, Ran, begin, inside
from tests.support.postgres import NEEDS_POSTGRES
from tests.support.postgres import PROGRAMS as PROGRAMS_OF_POSTGRES
from tests.support.report_schema import checked_report
from tests.support.scene import living_with

pytestmark = pytest.mark.integration

PROGRAMS = Path(__file__).parents[1] / "support" / "programs"
REQUESTS = 8
LIMIT_S = 180.0  # guards against hanging only


class Bench:
    """A folder with a configuration: requests go to a router, which asks a worker, which is killed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.reports = directory / "out"
        digest = hashlib.sha256(str(directory).encode()).hexdigest()[:12]
        self.shared = Path("/dev/shm") / f"ci-doctor-test-{digest}"
        self.ask(REQUESTS)

    def ask(self, count: int) -> None:
        lines = [
            json.dumps({"id": f"r{number}", "body": {"prompt": f"p{number}"}})
            for number in range(count)
        ]
        (self.directory / "requests.jsonl").write_text("\n".join(lines) + "\n")

    def write(self, worker: str = "", router: str | None = "", **settings: Any) -> None:
        """A configuration: `router` None for a worker that is asked directly. TOML takes what JSON writes, here."""
        services = {"worker": [*BARE, str(PROGRAMS / "serve_worker.py"), "{port}", *worker.split()]}
        if router is not None:
            words = [
                *BARE,
                str(PROGRAMS / "serve_router.py"),
                "{port}",
                "{worker.port}",
                *router.split(),
            ]
            services["router"] = words
        values: dict[str, object] = {
            "services": list(services), "kill": "worker", "requests": "requests.jsonl", "concurrency": 4,
            # Long limits: a busy machine must not break a promise that is not under test.
            "outage": "300ms", "request_timeout": "60s", "release_timeout": "2s", "recovery_timeout": "60s",
            "throughput": 0, "budget": "10m", "control_starts": 0, **settings,
        }  # fmt: skip
        self.configure(services, values)

    def configure(
        self, services: dict[str, list[str]], values: dict[str, object], ready: str = "/health"
    ) -> None:
        """Write ci-doctor.toml; each service has the folder as its last word, so that it can be found again."""
        lines = []
        for name, words in services.items():
            command = json.dumps([*words, str(self.directory)])
            lines += [f"[services.{name}]", f"command = {command}", f'ready = "{ready}"']
        lines += ["[restart-check]", *(f"{key} = {toml(value)}" for key, value in values.items())]
        (self.directory / "ci-doctor.toml").write_text("\n".join(lines) + "\n")

    def check(self, *flags: str) -> Ran:
        return inside(
            "restart-check",
            "--report-dir",
            str(self.reports),
            *flags,
            cwd=self.directory,
        )

    def begin(self) -> subprocess.Popen[bytes]:
        return begin("restart-check", "--report-dir", str(self.reports), cwd=self.directory)

    @property
    def report(self) -> dict[str, Any]:
        """The report that was written, which fits its schema."""
        return checked_report((self.reports / "report.json").read_text())

    def phase(self, name: str) -> dict[str, Any]:
        phase: dict[str, Any] = self.report["facts"]["phases"][name]
        return phase

    def living(self) -> list[str]:
        """The command lines of what was started here and still runs."""
        return living_with(self.directory)


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.shared.unlink(missing_ok=True)
    assert bench.living() == []


def expect(bench: Bench, ran: Ran, verdict: str, code: int, *rules: str) -> dict[str, Any]:
    """The report, whose errors are exactly these rules of `restart-check`."""
    report = bench.report
    found = [finding["rule"] for finding in report["findings"] if finding["severity"] == "error"]
    assert (report["verdict"], ran.code, found) == (
        verdict,
        code,
        [f"restart-check/{rule}" for rule in rules],
    ), ran
    assert "Traceback" not in ran.err, ran
    return report


def test_a_worker_that_comes_back_is_a_pass_and_every_phase_is_told(bench: Bench) -> None:
    bench.write(
        recovered=["/", {"metric": "workers_alive", "service": "worker"}],
        same_outputs=True,
        throughput=0.3,
    )
    ran = bench.check()
    report = expect(bench, ran, "pass", 0)
    facts = report["facts"]
    assert set(facts["phases"]) == {"baseline", "kill", "outage", "recovery", "after"}
    assert facts["killed_at"] >= REQUESTS // 2
    assert facts["outage_s"] >= 0.3
    # On a busy machine, nobody may ask within the outage itself, but somebody does before it is back.
    without = [bench.phase(name) for name in ("outage", "recovery")]
    assert sum(each["failed"] for each in without) > 0
    assert {error for each in without for error in each["errors"]} == {
        "HTTP 502: the worker is gone"
    }
    assert facts["recovered_s"] >= facts["ready_s"] > 0
    assert facts["old"]["pid"] != facts["new"]["pid"]
    assert set(facts["promises"].values()) == {"kept"}
    assert [attempt["name"] for attempt in report["attempts"]] == [
        "worker 1",
        "router 1",
        "worker 2",
    ]
    assert all((bench.reports / attempt["log"]).is_file() for attempt in report["attempts"])
    assert {case["outcome"] for case in report["cases"]} == {"passed"}
    assert len(ran.out.splitlines()) <= 26
    assert ran.out.startswith("✓ PASS")


@pytest.mark.nightly
def test_a_router_that_holds_requests_while_its_worker_is_gone_hangs_them(bench: Bench) -> None:
    bench.write(router="holds", request_timeout="1500ms")
    report = expect(bench, bench.check(), "failed", 1, "hung-requests")
    hung = [bench.phase(name)["hung"] for name in ("kill", "outage", "recovery")]
    assert sum(hung) >= 4, "each of the four that could be under way"
    assert bench.phase("after")["failed"] == 0
    assert "within 1.5 s" in report["findings"][0]["summary"]


@pytest.mark.nightly
def test_requests_may_succeed_without_the_worker_and_then_must_be_the_same(bench: Bench) -> None:
    bench.write(router="spare", same_outputs=True)
    expect(bench, bench.check(), "pass", 0)
    assert sum(bench.phase(name)["ok"] for name in ("outage", "recovery")) > 0
    bench.write(router="spare-other", same_outputs=True)
    report = expect(bench, bench.check(), "failed", 1, "different-outputs")
    assert "before: " in report["findings"][0]["evidence"][0]["excerpt"]


def test_a_daemon_that_keeps_the_port_is_told_by_name_stopped_and_does_not_stop_the_relaunch(
    bench: Bench,
) -> None:
    bench.write(worker="daemon", release_timeout="700ms", request_timeout="10s")
    report = expect(bench, bench.check(), "failed", 1, "port-not-released", "tree-not-released")
    released = report["facts"]["released"]
    assert released["port_s"] is None
    assert "is owned by" in released["port_owner"]
    assert len(released["processes"]) == 1
    # Of a long command its beginning is told.
    assert "python" in released["commands"][0]
    assert f"pid {released['processes'][0]['pid']}: " in released["commands"][0]
    assert report["facts"]["recovered_s"] is not None


@pytest.mark.parametrize(
    ("traits", "settings", "rule", "said"),
    [
        ("shm@1", {}, "memory-not-released", "{shared}"),
        ("shm-open@1", {}, "memory-not-released", "{shared}"),
        ("child", {}, "tree-not-released", ""),
        ("deaf", {"signal": "term"}, "tree-not-released", "still lived 0.5 s after SIGTERM"),
    ],
)
@pytest.mark.gate(1)
def test_what_outlives_the_service_is_told_and_does_not_stop_its_recovery(
    bench: Bench, traits: str, settings: dict[str, Any], rule: str, said: str
) -> None:
    bench.write(worker=traits, router=None, release_timeout="500ms", **settings)
    report = expect(bench, bench.check(), "failed", 1, rule)
    assert said.format(shared=bench.shared) in report["findings"][0]["summary"]
    assert report["facts"]["recovered_s"] is not None


@pytest.mark.nightly
def test_shared_memory_that_is_meant_to_stay_breaks_no_promise(bench: Bench) -> None:
    bench.write(worker="shm@1", router=None, shared_memory=False)
    expect(bench, bench.check(), "pass", 0)


@pytest.mark.parametrize(
    ("traits", "settings", "rules", "said"),
    [
        pytest.param("dies@2", {}, ["not-recovered"], "did not come back", id="dies-again"),
        pytest.param(
            "never-ready@2",
            {"recovery_timeout": "1s"},
            ["not-recovered"],
            "HTTP status 503",
            id="not-ready",
        ),
        pytest.param(
            "loses-a-worker@2",
            {
                "recovered": [{"metric": "workers_alive", "service": "worker"}],
                "recovery_timeout": "2s",
            },
            ["not-recovered"],
            "workers_alive is 3, and 4 are wanted",
            id="a-worker-is-not-counted-again",
        ),
        pytest.param(
            "slow@2",
            # A slow start answers late on a busy machine, and must not hang there.
            {"throughput": 0.5, "request_timeout": "60s", "budget": "10m"},
            ["slower"],
            "requests a second after",
            id="slower",
        ),
        pytest.param("falls-ill@2", {}, ["not-recovered"], "not ready", id="falls-ill"),
        pytest.param("other-model@2", {}, ["other-model"], "of tinier", id="other-model"),
        pytest.param("error-in-200@2", {}, ["lost-after"], "requests failed", id="error-in-200"),
        pytest.param("list@2", {}, ["lost-after"], "requests failed", id="not-a-text"),
    ],
)
@pytest.mark.gate(1)
def test_each_thing_that_the_second_start_does_worse_is_one_broken_promise(
    bench: Bench, traits: str, settings: dict[str, Any], rules: list[str], said: str
) -> None:
    bench.write(worker=traits, **settings)
    report = expect(bench, bench.check(), "failed", 1, *rules)
    assert said in report["findings"][0]["summary"]
    assert [case["outcome"] for case in report["cases"]].count("failed") == 1


@pytest.mark.nightly
def test_a_neighbour_that_dies_with_the_worker_is_the_broken_promise(bench: Bench) -> None:
    bench.write(router="dies")
    report = expect(bench, bench.check(), "failed", 1, "other-died")
    assert report["findings"][0]["summary"].startswith(
        "router did not survive the restart of worker"
    )
    assert "lost the worker" in report["findings"][0]["evidence"][0]["excerpt"]


@pytest.mark.parametrize("at", ["0", "1"])
@pytest.mark.nightly
def test_it_is_killed_with_the_first_requests_or_between_two_loads(bench: Bench, at: str) -> None:
    bench.write(router=None)
    report = expect(bench, bench.check("--at", at, "--outage", "0"), "pass", 0)
    killed_at = report["facts"]["killed_at"]
    assert killed_at == REQUESTS if at == "1" else killed_at < REQUESTS


# --- what a store keeps ---


def write_store(bench: Bench, lie: str) -> None:
    bench.ask(0)
    lines = [
        json.dumps({"id": f"k{n}", "path": f"/keys/{n}", "method": "GET", "protocol": "json"})
        for n in range(40)
    ]
    (bench.directory / "requests.jsonl").write_text("\n".join(lines))
    keys = [*BARE, str(PROGRAMS / "serve_keys.py"), "{port}", lie]
    values = {"requests": "requests.jsonl", "outage": "0s", "throughput": 0, "budget": "10m"}
    bench.configure({"keys": keys}, values)


@pytest.mark.parametrize("lie", ["loses-a-key", "loses-a-tenth"])
@pytest.mark.gate(1)
def test_a_store_that_loses_keys_by_a_kill_does_not_pass(bench: Bench, lie: str) -> None:
    write_store(bench, lie)
    report = expect(bench, bench.check(), "failed", 1, "unkept-answers")
    assert report["facts"]["answers"]["controls"] == 2
    assert "now:    {" in report["findings"][0]["evidence"][0]["excerpt"]


@pytest.mark.parametrize(
    ("lie", "warnings"),
    [("honest", []), ("varies-after-the-first-start", ["restart-check/starts-differ"])],
)
@pytest.mark.nightly
def test_a_store_whose_answers_depend_on_no_kill_passes(
    bench: Bench, lie: str, warnings: list[str]
) -> None:
    write_store(bench, lie)
    report = expect(bench, bench.check(), "pass", 0)
    assert [finding["rule"] for finding in report["findings"]] == warnings
    assert (bench.directory / "serve_keys.starts").read_text() == "xxxx"


# --- what a load was told is written ---

EXAMPLE_OF_WRITES = Path(__file__).parents[2] / "examples" / "restart-writes"


def write_writes(bench: Bench, *traits: str, **settings: Any) -> None:
    store = [sys.executable, str(EXAMPLE_OF_WRITES / "store.py"), "{port}", *traits]
    values: dict[str, object] = {
        "load": [sys.executable, str(EXAMPLE_OF_WRITES / "load.py"), "{port}"],
        "verify": [sys.executable, str(EXAMPLE_OF_WRITES / "verify.py"), "{port}"],
        "acknowledged": 20, "outage": "0s", "budget": "5m", **settings,
    }  # fmt: skip
    bench.configure({"store": store}, values, ready="tcp://127.0.0.1:{port}")


def test_a_write_that_was_acknowledged_and_is_gone_is_a_broken_promise_with_its_line(
    bench: Bench,
) -> None:
    write_writes(bench, "--late")
    report = expect(bench, bench.check(), "failed", 1, "lost-writes")
    writes = report["facts"]["writes"]
    assert writes["lost_count"] > 0
    assert writes["before_kill"] >= 20
    acknowledged = (bench.reports / "acknowledged.txt").read_text().splitlines()
    assert len(acknowledged) == writes["acknowledged"]
    assert report["findings"][0]["evidence"][0]["excerpt"].split(":")[0] in {
        line.split()[0] for line in acknowledged
    }


@pytest.mark.nightly
def test_a_store_that_writes_before_it_acknowledges_keeps_every_line(bench: Bench) -> None:
    write_writes(bench)
    report = expect(bench, bench.check(), "pass", 0)
    assert "acknowledged writes is lost" in report["summary"]


@pytest.mark.parametrize(
    ("settings", "rule", "said"),
    [
        ({"load": ["true"]}, "baseline-failed", "the load ended (exit code 0) when 0 writes"),
        ({"load": ["printf", "one\ntwo"]}, "baseline-failed", "when 1 writes"),
        ({"verify": ["false"]}, "proves-nothing", "ended with 1, and printed nothing"),
        ({"verify": ["sh", "-c", "exit 3"]}, "proves-nothing", "the verifier ended: exit code 3"),
        ({"verify": ["true"]}, "proves-nothing", "has read none of the acknowledged lines"),
        (
            {"verify": ["sh", "-c", "cat > /dev/null; echo all good"]},
            "proves-nothing",
            "such as `all good`",
        ),
    ],
)
@pytest.mark.gate(1)
def test_writes_that_nobody_acknowledged_or_verified_prove_nothing(
    bench: Bench, settings: dict[str, Any], rule: str, said: str
) -> None:
    write_writes(bench, **settings)
    report = expect(bench, bench.check(), "void", 86, rule)
    assert said in report["summary"]


@NEEDS_POSTGRES
@pytest.mark.nightly
def test_shared_memory_that_the_next_start_takes_back_is_no_broken_promise(bench: Bench) -> None:
    assert PROGRAMS_OF_POSTGRES is not None
    data = Path(tempfile.mkdtemp(prefix="pg-"))
    prefix: list[str] = []
    if os.geteuid() == 0:
        os.chown(data, 65534, 65534)
        prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    bin_ = str(PROGRAMS_OF_POSTGRES)
    try:
        subprocess.run(
            [*prefix, f"{bin_}/initdb", "-D", data / "d", "-U", "ci", "--auth=trust", "--no-sync"],
            cwd="/",
            check=True,
            stdout=subprocess.DEVNULL,
        )
        server = [
            *prefix, f"{bin_}/postgres", "-D", f"{data}/d", "-p", "{port}", "-k", str(data),
            "-c", "listen_addresses=127.0.0.1", "-c", "shared_memory_type=sysv", "-c", "max_connections=20",
        ]  # fmt: skip
        ready = ["exec", f"{bin_}/pg_isready", "-h", "127.0.0.1", "-p", "{port}"]
        values = {
            "load": ["seq", "1", "3"], "verify": ["sed", "d"], "acknowledged": 3, "outage": "0s",
            "release_timeout": "500ms",
        }  # fmt: skip
        lines = [
            "[services.postgres]",
            f"command = {json.dumps(server)}",
            f"ready = {{ exec = {json.dumps(ready[1:])} }}",
            "[restart-check]",
            *(f"{key} = {toml(value)}" for key, value in values.items()),
        ]
        (bench.directory / "ci-doctor.toml").write_text("\n".join(lines) + "\n")
        report = expect(bench, bench.check(), "pass", 0)
        released = report["facts"]["released"]
        assert released["memory_left"] == []
        assert any(each.startswith("System V ") for each in released["memory_taken_back"])
    finally:
        shutil.rmtree(data)


# --- moments, signals, and clients that are commands ---


def write_store_of_lines(bench: Bench, traits: str, **settings: Any) -> None:
    store = [*BARE, str(PROGRAMS / "serve_store.py")]
    values: dict[str, object] = {
        "setup": ["sh", "-c", "rm -f store.txt* lock; echo >>setups"],
        "client": [*store, "ping", "{port}"], "runs": 3, "concurrency": 2,
        "load": [*store, "put", "{port}"], "verify": [*store, "verify", "{port}"], "acknowledged": 5,
        "saving": {"log": "^saving"}, "outage": "0s", "budget": "10m", "control_starts": 0, "passes": 1,
        "throughput": 0, "release_timeout": "2s", **settings,
    }  # fmt: skip
    bench.configure({"store": [*store, "{port}", traits]}, values, ready="tcp://127.0.0.1:{port}")


EVERY_MOMENT = ["before-ready", "under-load", "saving", "stopping"]


def cells_of(report: dict[str, Any]) -> dict[str, str]:
    return {
        f"{cell['moment']} {cell['signal']}": cell["verdict"] for cell in report["facts"]["cells"]
    }


@pytest.mark.parametrize(
    ("traits", "moment", "signal", "rule", "said"),
    [
        ("saves truncates", "saving", "SIGKILL", "lost-writes", "acknowledged ones"),
        ("saves deadlocks", "saving", "SIGTERM", "tree-not-released", "still lived 2 s"),
        ("locks", "before-ready", "SIGKILL", "not-recovered", "did not come back"),
        ("forgets", "stopping", "SIGKILL", "lost-writes", "acknowledged ones"),
    ],
)
@pytest.mark.gate(1)
def test_a_fault_of_one_moment_is_a_broken_promise_there(
    bench: Bench, traits: str, moment: str, signal: str, rule: str, said: str
) -> None:
    write_store_of_lines(bench, traits, moment=moment, signal=signal)
    report = expect(bench, bench.check(), "failed", 1, rule)
    assert said in report["findings"][0]["summary"]
    assert report["facts"]["into_s"] is not None


@pytest.mark.parametrize(
    ("traits", "bad"),
    [
        ("saves", {}),
        ("locks", {"before-ready SIGKILL", "before-ready SIGTERM"}),
        ("forgets", {"stopping SIGKILL"}),
    ],
)
@pytest.mark.nightly
def test_a_sweep_fails_where_the_store_has_its_fault_and_nowhere_else(
    bench: Bench, traits: str, bad: set[str]
) -> None:
    if "saves" not in traits:
        moments = [each for each in EVERY_MOMENT if each != "saving"]
    else:
        moments = EVERY_MOMENT
    write_store_of_lines(bench, traits, moment=moments, signal=["SIGKILL", "SIGTERM"])
    ran = bench.check()
    report = bench.report
    cells = cells_of(report)
    assert len(cells) == 2 * len(moments)
    assert {name for name, verdict in cells.items() if verdict == "failed"} == set(bad), ran
    assert set(cells.values()) <= {"pass", "failed"}
    assert (report["verdict"], ran.code) == (("failed", 1) if bad else ("pass", 0))
    # Each began with a state of its own.
    assert (bench.directory / "setups").read_text().count("\n") == len(cells)


@pytest.mark.nightly
def test_a_moment_that_never_comes_is_void_and_the_settled_restarts_are_kept(bench: Bench) -> None:
    write_store_of_lines(
        bench, "", moment=["under-load", "saving"], signal="SIGKILL", recovery_timeout="3s"
    )
    ran = bench.check()
    report = bench.report
    assert cells_of(report) == {"under-load SIGKILL": "pass", "saving SIGKILL": "void"}
    assert (report["verdict"], ran.code) == ("void", 86)
    assert report["findings"][0]["rule"] == "restart-check/moment-not-reached"
    assert "saving SIGKILL: nothing was killed: `saving` did not hold" in ran.out.replace("\n ", "")
    before = (bench.directory / "serve_store.starts").read_text()

    resumed = bench.check("--resume")
    assert [each["kept"] for each in bench.report["facts"]["cells"]] == [True, False]
    assert (bench.directory / "serve_store.starts").read_text() == before + "x"
    assert (resumed.code, len(bench.report["cases"])) == (86, len(report["cases"]))

    # Under another setting nothing was settled.
    bench.check("--resume", "--outage", "10ms")
    assert [each["kept"] for each in bench.report["facts"]["cells"]] == [False, False]


@pytest.mark.nightly
def test_a_restart_without_time_is_no_verdict_and_is_made_when_it_is_resumed(bench: Bench) -> None:
    write_store_of_lines(bench, "", signal=["SIGKILL", "SIGTERM"], setup="sh -c 'sleep 60'")
    ran = bench.check("--budget", "3s")
    assert set(cells_of(bench.report).values()) == {"inconclusive"}
    assert ran.code == 86
    write_store_of_lines(bench, "", signal=["SIGKILL", "SIGTERM"])
    assert bench.check("--resume").code == 0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"setup": ["sh", "-c", "exit 3"]}, "`setup` ended: exit code 3"),
        ({"client": ["sh", "-c", "echo no >&2; exit 4"]}, "nothing was answered"),
        ({"moment": "stopping", "stop_signal": "SIGKILL"}, "had ended"),
    ],
)
@pytest.mark.gate(1)
def test_a_restart_that_was_not_prepared_is_void(
    bench: Bench, settings: dict[str, Any], said: str
) -> None:
    write_store_of_lines(bench, "", **settings)
    ran = bench.check()
    report = bench.report
    assert (report["verdict"], ran.code) == ("void", 86), ran
    assert said in report["summary"]
    if "client" in settings:
        excerpt = report["findings"][0]["evidence"][0]["excerpt"]
        assert excerpt == "the client ended: exit code 4: no"


@pytest.mark.parametrize(
    ("after", "rules", "said"),
    [
        ("exit 1", ["lost-after"], "requests failed after"),
        ("exec sleep 60", ["hung-requests"], "neither succeeded"),
        ("echo other", ["unkept-answers"], "got another one"),
        ("exit 0", ["lost-answers", "unkept-answers"], "hold no word"),
    ],
)
@pytest.mark.gate(1)
def test_exit_code_and_output_of_a_client_are_the_promise(
    bench: Bench, after: str, rules: list[str], said: str
) -> None:
    # The third start is the one after the kill.
    client = f'test "$(cat serve_store.starts)" = xxx && {{ {after}; exit; }}; echo ok'
    write_store_of_lines(
        bench, "", client=["sh", "-c", client], load=["seq", "5"], verify=["sed", "d"],
        passes=2, control_starts=1, request_timeout="2s",
    )  # fmt: skip
    report = expect(bench, bench.check(), "failed", 1, *rules)
    assert said in report["findings"][0]["summary"]


# --- what proves nothing ---


@pytest.mark.parametrize(
    ("traits", "settings", "rule"),
    [
        pytest.param("fails", {}, "baseline-failed", id="nothing-answered"),
        pytest.param(
            "silent", {"request_timeout": "500ms"}, "baseline-failed", id="hangs-from-the-beginning"
        ),
        pytest.param("empty", {}, "proves-nothing", id="empty-answers"),
        pytest.param(
            "",
            {"recovered": [{"http": "/", "status": 418}], "recovery_timeout": "300ms"},
            "baseline-failed",
            id="a-condition-that-never-held",
        ),
    ],
)
@pytest.mark.gate(1)
def test_a_check_that_proves_nothing_is_void_and_no_pass(
    bench: Bench, traits: str, settings: dict[str, Any], rule: str
) -> None:
    bench.write(worker=traits, **settings)
    report = expect(bench, bench.check(), "void", 86, rule)
    assert "passed" not in {case["outcome"] for case in report["cases"]} or rule == "proves-nothing"


@pytest.mark.nightly
def test_requests_that_the_baseline_answers_differently_are_left_out(bench: Bench) -> None:
    bench.write(worker="unsteady", same_outputs=True)
    report = expect(bench, bench.check(), "pass", 0)
    assert [finding["rule"] for finding in report["findings"]] == ["restart-check/unstable-outputs"]


def test_a_service_that_cannot_start_is_its_own_failure(bench: Bench) -> None:
    bench.write(worker="dies")
    ran = bench.check()
    report = bench.report
    assert (report["verdict"], ran.code) == ("failed", 1)
    assert [finding["rule"] for finding in report["findings"]] == ["services/died"]
    assert {case["outcome"] for case in report["cases"]} == {"error"}


@pytest.mark.nightly
@pytest.mark.parametrize(("own_session", "ended"), [(False, ("failed", 1)), (True, ("infra", 75))])
def test_a_port_is_no_fault_of_the_change_unless_a_process_of_the_job_owns_it(
    bench: Bench, own_session: bool, ended: tuple[str, int]
) -> None:
    with listening_process(own_session=own_session) as port:
        bench.write()
        path = bench.directory / "ci-doctor.toml"
        url = f"http://127.0.0.1:{port}/"
        own = 'ready = "/health"\n[services.router]'
        path.write_text(path.read_text().replace(own, f'ready = "{url}"\n[services.router]'))
        ran = bench.check()
    assert (bench.report["verdict"], ran.code) == ended, ran


def test_a_budget_that_ends_before_the_kill_is_no_verdict(bench: Bench) -> None:
    bench.write(budget="1500ms")
    expect(bench, bench.check(), "inconclusive", 86, "budget-spent")


# --- wrong settings; tests/unit/restart/test_planning.py has one of each kind ---


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kill": "wroker"}, "did you mean `worker`?"),
        ({"load": "true"}, "`verify` is missing"),
        ({"load": "", "verify": "true"}, "load: the command is empty"),
        ({"outrage": "5s"}, "did you mean `outage`?"),
        # What was typed comes before what is missing.
        (
            {"recovery_timeout": "soon", "requests": "nothing.jsonl"},
            "recovery_timeout: not a duration",
        ),
    ],
)
@pytest.mark.gate(1)
def test_what_is_wrong_is_found_before_anything_is_started(
    bench: Bench, settings: dict[str, Any], said: str
) -> None:
    bench.write(**settings)
    ran = bench.check()
    assert ran.code == 2, ran
    assert said in ran.out + ran.err, ran
    assert not (bench.directory / "serve_worker.starts").exists()


# --- signals ---


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.gate(1)
def test_a_signal_in_the_outage_ends_it_in_order_and_the_report_is_written(
    bench: Bench, number: signal.Signals, code: int
) -> None:
    bench.write(outage="60s")
    process = bench.begin()
    assert process.stderr is not None
    for line in process.stderr:
        if b"stopped by SIGKILL" in line:
            break
    os.kill(process.pid, number)
    process.communicate(timeout=LIMIT_S)
    report = bench.report
    assert (process.returncode, report["exit_code"], report["verdict"]) == (code, code, None)
    assert report["error"]["message"] == f"interrupted by {number.name}; every process was stopped"
    assert report["facts"]["phases"]["baseline"]["ok"] > 0


# --- the embedded example ---

EXAMPLE = Path(__file__).parents[2] / "examples" / "tiny-llm"


@pytest.mark.parametrize(
    ("config", "verdict", "code", "rules"),
    [
        pytest.param("restart.toml", "pass", 0, set(), id="as-shipped"),
        pytest.param(
            "restart-bug.toml",
            "failed",
            1,
            {
                "restart-check/hung-requests",
                "restart-check/port-not-released",
                "restart-check/tree-not-released",
            },
            id="with-its-switch",
        ),
    ],
)
@pytest.mark.nightly
def test_the_example_ends_as_its_readme_says(
    config: str, verdict: str, code: int, rules: set[str], tmp_path: Path
) -> None:
    pytest.importorskip("numpy")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ran = inside(
        "restart-check",
        "--config",
        config,
        "--report-dir",
        str(tmp_path),
        cwd=EXAMPLE,
        env={"PATH": path},
    )
    report = json.loads((tmp_path / "report.json").read_text())
    found = {finding["rule"] for finding in report["findings"] if finding["severity"] == "error"}
    assert (ran.code, report["verdict"], found) == (code, verdict, rules), ran
