# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor correctness` against real servers, good ones and evil ones: the verdict, and that nothing is left behind."""

import json
import os
import select
import shlex
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import (
    BARE,
    Ran,
    after_shell,
    begin,
    doctor,
    environment,
    inside,
    words,
)
from tests.support.orders import SEED
from tests.support.report_schema import checked_report
from tests.support.scene import living_with

pytestmark = pytest.mark.integration

SERVER = Path(__file__).parents[1] / "support" / "programs" / "serve_model.py"
REQUESTS = 4
# Two starts, and no test.
ONE_PAIR = ("--policy", "any", "--retries", "1")
# Two starts of each arm are then enough to blame a candidate that never works, instead of four.
SOON = ("--alpha", "0.2")
LIMIT_S = 180.0  # guards against hanging only
SECRET = "sk-4242-do-not-tell"
# Has the files looked at that both arms reach, which tests/support/cli.py turns off.
LOOKING: dict[str, str | None] = {"CI_DOCTOR_CORRECTNESS_SHARED": None}


class Bench:
    """A folder with a requests file, where two servers are held against each other."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.reports = directory / "out"
        self.ask(REQUESTS)

    def ask(self, count: int, **body: object) -> None:
        """Write the requests file."""
        lines = [
            json.dumps(
                {"id": f"r{number}", "body": {"prompt": f"p{number}", "temperature": 0, **body}}
            )
            for number in range(count)
        ]
        (self.directory / "requests.jsonl").write_text("\n".join(lines) + "\n")

    def server(self, traits: str = "") -> str:
        """The command of a server with these traits."""
        words = shlex.join([*BARE, str(SERVER)])
        return f"{words} {{port}} start={{start}} {traits} {shlex.quote(str(self.directory))}"

    def words(self, baseline: str = "", candidate: str = "", *more: str) -> list[str]:
        """The command line of a comparison."""
        return [
            "correctness", "--baseline", self.server(baseline), "--candidate", self.server(candidate),
            "--requests", "requests.jsonl", "--report-dir", str(self.reports), "--retries", "3", "--passes", "1", *more,
        ]  # fmt: skip

    def compare(
        self,
        baseline: str = "",
        candidate: str = "",
        *more: str,
        env: dict[str, str | None] | None = None,
    ) -> Ran:
        """Run a comparison to its end, in this process: its servers are real all the same."""
        return inside(*self.words(baseline, candidate, *more), cwd=self.directory, env=env)

    def begin(self, baseline: str = "", candidate: str = "", *more: str) -> subprocess.Popen[bytes]:
        """Start a comparison."""
        env = {"TOLD": str(self.directory / "told")}
        return begin(*self.words(baseline, candidate, *more), cwd=self.directory, env=env)

    @property
    def report(self) -> dict[str, Any]:
        """The report that was written, which fits its schema."""
        return checked_report((self.reports / "report.json").read_text())

    @property
    def samples(self) -> list[dict[str, Any]]:
        """The samples that were written, without those of controls."""
        return [sample for sample in self.lines if sample["pass"]]

    @property
    def controls(self) -> list[dict[str, Any]]:
        """The answers to requests with a changed prompt."""
        return [sample for sample in self.lines if not sample["pass"]]

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The lines of samples.jsonl."""
        return [
            json.loads(line) for line in (self.reports / "samples.jsonl").read_text().splitlines()
        ]

    def rules(self) -> list[str]:
        """The rules of the report's findings."""
        return [finding["rule"] for finding in self.report["findings"]]

    def living(self) -> list[str]:
        """The command lines of what was started here and still runs."""
        return living_with(self.directory)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    assert bench.living() == []


@pytest.fixture
def bench_apart(tmp_path: Path) -> Iterator[Bench]:
    """A bench at whose files no other test's experiment looks: all look at /tmp, and hold leases there."""
    place = Path("/run")
    if not os.access(place, os.W_OK):
        place = tmp_path
    with tempfile.TemporaryDirectory(dir=place, prefix="ci-doctor-test.") as name:
        bench = Bench(Path(name))
        yield bench
        assert bench.living() == []


@pytest.mark.nightly
def test_a_comparison_is_written_to_the_history_with_its_cause(bench: Bench) -> None:
    database = bench.directory / "h.sqlite"
    lines = []
    for job in ("1", "2"):
        env: dict[str, str | None] = {
            "CI_DOCTOR_HISTORY_DATABASE": str(database),
            "BUILDKITE": "true",
            "BUILDKITE_JOB_ID": job,
            "BUILDKITE_AGENT_NAME": f"gpu-{job}",
        }
        ran = bench.compare("", "dies", *SOON, env=env)
        lines += [line for line in ran.out.splitlines() if "seen" in line]

    assert [line.split(": ")[1] for line in lines] == [
        "not seen before in this history",
        f"seen 1 time since {bench.report['started_at'][:10]}, last on agent gpu-1",
    ]
    with closing(sqlite3.connect(database)) as connection:
        count = "SELECT COUNT(*) FROM job WHERE cause_id IS NOT NULL"
        assert connection.execute(count).fetchone() == (2,)


def check(bench: Bench, ran: Ran, verdict: str, code: int) -> None:
    report = bench.report
    assert (report["verdict"], ran.code) == (verdict, code), ran
    assert report["exit_code"] == code
    assert "Traceback" not in ran.err, ran


# --- the verdicts ---


@pytest.mark.parametrize(
    ("baseline", "candidate"),
    [
        ("", ""),
        ("", "fresh"),
        ("fresh", "backwards"),
        ("slow", "noisy"),
        ("flip", "flip"),
        ("surrogate", "surrogate"),
    ],
)
@pytest.mark.gate(1)
def test_equal_and_complete_answers_pass(bench: Bench, baseline: str, candidate: str) -> None:
    ran = bench.compare(baseline, candidate)
    check(bench, ran, "pass", 0)
    assert [attempt["outcome"] for attempt in bench.report["attempts"]] == ["answered 4/4"] * 2
    assert len(bench.samples) == 2 * REQUESTS
    assert not bench.rules()
    assert bench.report["facts"]["shared"] == [], (
        "the arms may share everything: nothing is looked at"
    )


def test_one_byte_that_always_differs_is_a_regression(bench: Bench) -> None:
    check(bench, bench.compare("", "flip"), "regression", 1)
    report = bench.report
    shown = report["facts"]["aligned"][0]
    assert (shown["starts"], shown["request"], shown["field"]) == (["A1", "B1"], "r1", "text")
    assert "--request r1" in report["findings"][0]["remedy"]
    test = report["facts"]["test"]
    # Arms of 1 and 1, then of 3 and 4: the labels that separate them are one choice of 2 * 35.
    assert test["p"] == pytest.approx(1 / 70)
    assert [look["starts"] for look in test["looks"]] == [9]
    assert report["facts"]["starts"] == {"baseline": 4, "candidate": 5}
    (mix,) = (table for table in report["tables"] if table["title"] == "Mix of answers")
    assert [cell["value"] for cell in mix["rows"][0]["cells"]] == ["a 4, b 0", "a 0, b 5"]
    order = [attempt["name"].split()[0] for attempt in report["attempts"]]
    schedule = report["facts"]["schedule"]
    assert (schedule["made"].split(), schedule["seed"]) == (order, SEED)


@pytest.mark.parametrize(
    ("trait", "field"),
    [
        ("finish", "choices[0].finish_reason"),
        ("logprobs", "choices[0].logprobs.token_logprobs[1]"),
        ("surrogate", "text"),
    ],
)
@pytest.mark.gate(1)
def test_a_difference_in_any_part_of_an_answer_is_noticed(
    bench: Bench, trait: str, field: str
) -> None:
    # One pair of starts decides nothing, and shows all of the difference.
    check(bench, bench.compare("", trait, *ONE_PAIR), "inconclusive", 86)
    shown = bench.report["facts"]["aligned"][0]
    assert (shown["starts"], shown["request"], shown["field"]) == (["A1", "B1"], "r0", field)


@pytest.mark.parametrize(
    ("baseline", "candidate", "verdict", "code"),
    [
        ("flip@1", "flip@2", "flaky", 0),
        # The baseline never varied, so it is no flake of the baseline either.
        ("", "flip@1", "inconclusive", 86),
        ("", "dies@1", "inconclusive", 86),
        ("", "prompt-tokens", "void", 86),
    ],
)
@pytest.mark.gate(1)
def test_what_differs_only_sometimes_is_not_the_changes_fault(
    bench: Bench, baseline: str, candidate: str, verdict: str, code: int
) -> None:
    check(bench, bench.compare(baseline, candidate), verdict, code)


NEVER_ANSWER = {
    "closes": "RemoteProtocolError",
    "html": "not JSON",
    "fails": "HTTP 500",
    "error": "an error in a 200 response",
    "no-choices": "no `choices`",
    "two-choices": "2 choices in the answer, 1 were requested",
    "nan": "NaN is no JSON number",
    "cut-stream": "a choice without a `finish_reason`",
    "nested": "not JSON",
    "silent": "no answer in 0.5 s",
    "trickle": "no answer in 0.5 s",
}
DIE = ("dies", "exits", "dies-after=2", "exits-after=4")
NEVER_READY = ("never-ready", "elsewhere")


@pytest.mark.parametrize("trait", [*NEVER_ANSWER, *DIE, *NEVER_READY])
@pytest.mark.gate(1)
def test_a_candidate_that_never_works_is_a_regression(bench: Bench, trait: str) -> None:
    start_timeout = "0.6" if trait in NEVER_READY else "20"
    limits = ("--request-timeout", "0.5", "--start-timeout", start_timeout)
    ran = bench.compare("", trait, *limits, *SOON)
    check(bench, ran, "regression", 1)
    report = bench.report
    errors = [finding for finding in report["findings"] if finding["severity"] == "error"]
    if trait in NEVER_ANSWER:
        assert NEVER_ANSWER[trait] in json.dumps(report["findings"], ensure_ascii=False)
    else:
        assert {finding["rule"] for finding in errors} > {"correctness/regression"}
    if trait in {"dies", "dies-after=2"}:
        said = "the engine could not be loaded" if trait == "dies" else "worker lost"
        assert any(
            said in (evidence["excerpt"] or "")
            for finding in errors
            for evidence in finding["evidence"]
        )


@pytest.mark.parametrize("trait", [*NEVER_ANSWER, "empty", *DIE, *NEVER_READY])
@pytest.mark.gate(1)
def test_arms_that_both_never_work_prove_nothing(bench: Bench, trait: str) -> None:
    start_timeout = "0.6" if trait in NEVER_READY else "20"
    ran = bench.compare(trait, trait, "--request-timeout", "0.5", "--start-timeout", start_timeout)
    verdict = "failed" if trait in DIE + NEVER_READY else "void"
    check(bench, ran, verdict, 1 if verdict == "failed" else 86)
    assert {case["outcome"] for case in bench.report["cases"]} == {"error"}


@pytest.mark.nightly
def test_a_candidate_that_is_ill_after_its_last_answer_has_failed(bench: Bench) -> None:
    check(bench, bench.compare("", "falls-ill", *SOON), "regression", 1)
    assert "is so no more after the last answer: HTTP status 503" in json.dumps(
        bench.report["findings"]
    )


@pytest.mark.nightly
def test_a_request_that_only_one_arm_answers_is_never_overlooked(bench: Bench) -> None:
    check(bench, bench.compare("", "silent-on-p1", "--request-timeout", "0.5"), "regression", 1)
    check(bench, bench.compare("silent-on-p1", "", "--request-timeout", "0.5"), "void", 86)


@pytest.mark.nightly
def test_a_candidate_that_falls_silent_has_changed(bench: Bench) -> None:
    check(bench, bench.compare("", "empty"), "regression", 1)


LISTENS = (
    "import socket; s = socket.create_server(('127.0.0.1', 0)); "
    "print(s.getsockname()[1], flush=True); input()"
)


@pytest.mark.parametrize(
    ("arm", "is_of_job"), [("baseline", False), ("candidate", False), ("candidate", True)]
)
@pytest.mark.gate(1)
def test_a_port_owned_by_another_process_is_nobodys_fault_unless_the_job_started_it(
    bench: Bench, arm: str, is_of_job: bool
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LISTENS], text=True, start_new_session=not is_of_job,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as holder:  # fmt: skip
        assert holder.stdout
        ready = f"http://127.0.0.1:{holder.stdout.readline().strip()}/health"
        config = f"""
            [services.good]
            command = {json.dumps(bench.server())}
            [services.bad]
            command = {json.dumps(bench.server())}
            ready = "{ready}"
            [correctness]
            requests = "requests.jsonl"
            baseline = {{ services = ["{"bad" if arm == "baseline" else "good"}"] }}
            candidate = {{ services = ["{"bad" if arm == "candidate" else "good"}"] }}
        """
        (bench.directory / "ci-doctor.toml").write_text(config)
        ran = doctor("correctness", "--report-dir", bench.reports, cwd=bench.directory)
        holder.communicate("\n")
    check(bench, ran, *(("failed", 1) if is_of_job else ("infra", 75)))
    assert "correctness/service-outside" in bench.rules()


def own_server(bench: Bench, source: str, baseline: str = "", candidate: str = "--new") -> Ran:
    """Compare two starts of a server that is the repository's own code."""
    script = bench.directory / "own.py"
    script.write_text(source)
    command = f"{shlex.join([*BARE, str(script)])} {{port}}"
    return inside(
        "correctness", "--baseline", f"{command} {baseline}", "--candidate", f"{command} {candidate}",
        "--requests", "requests.jsonl", "--report-dir", bench.reports, "--retries", "3", *SOON,
        cwd=bench.directory,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("source", "headline"),
    [
        pytest.param("import no_such_module", "ModuleNotFoundError: No module named", id="import"),
        pytest.param("from json import lods", "cannot import name 'lods'", id="name"),
        pytest.param("def serve(:\n", "SyntaxError: invalid syntax", id="syntax"),
        pytest.param("import os; os.environ['MODEL_PATH']", "KeyError: 'MODEL_PATH'", id="key"),
        pytest.param("open('weights.json')", "No such file or directory: 'weights", id="file"),
        pytest.param("raise SystemExit(3)", "died", id="without a word"),
        pytest.param("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL", id="killed"),
        pytest.param("raise MemoryError", "MemoryError", id="memory"),
        pytest.param(
            "raise RuntimeError('CUDA error: an illegal memory access was encountered')",
            "CUDA error: an illegal memory access",
            id="CUDA",
        ),
        pytest.param("raise TimeoutError('engine: not ready in 600 s')", "not ready", id="time"),
    ],
)
@pytest.mark.gate(1)
def test_what_the_repositorys_own_code_ends_in_both_arms_is_never_retried(
    bench: Bench, source: str, headline: str
) -> None:
    check(bench, own_server(bench, source), "failed", 1)
    assert headline in bench.report["summary"]
    assert "healthy machine" not in json.dumps(bench.report)
    assert bench.rules()[0] == "correctness/failed"
    assert {case["outcome"] for case in bench.report["cases"]} == {"error"}


def test_a_command_that_both_arms_write_wrongly_is_an_error_of_usage(bench: Bench) -> None:
    source = "import argparse; argparse.ArgumentParser().parse_args()"
    assert own_server(bench, source).code == 2


# Serves, but for one argument: then it ends as if the index were away, which nobody else sees.
AWAY_FOR_ONE = """
import http.server, json, sys
if "--new" in sys.argv:
    sys.exit("pip._vendor.urllib3.exceptions.ReadTimeoutError: HTTPSConnectionPool(host='files.pythonhosted.org', port=443): Read timed out.")
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.answer({"choices": [{"index": 0, "text": "one"}]})
    def do_POST(self): self.do_GET()
    def answer(self, body):
        if "Content-Length" in self.headers: self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200); self.end_headers(); self.wfile.write(json.dumps(body).encode())
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@pytest.mark.nightly
def test_a_cause_outside_that_only_the_candidates_log_names_is_not_retried(bench: Bench) -> None:
    check(bench, own_server(bench, AWAY_FOR_ONE), "failed", 1)
    assert "Read timed out" in bench.report["summary"]
    assert "Another run can help" not in json.dumps(bench.report)


# Listens, and dies as soon as the first request was made.
KV = """
import socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
open("told").read(1)
sys.exit(9)
"""


@pytest.mark.nightly
def test_the_death_of_a_service_behind_the_endpoint_counts(bench: Bench) -> None:
    config = f"""
        [services.kv]
        command = {json.dumps([*BARE, "-c", KV, "{port}"])}
        ready = "tcp://127.0.0.1:{{port}}"
        [services.plain]
        command = {json.dumps(bench.server())}
        [services.vllm]
        command = {json.dumps(bench.server("silent tell=1"))}
        [correctness]
        requests = "requests.jsonl"
        alpha = 0.2
        baseline = {{ services = ["plain"] }}
        candidate = {{ services = ["kv", "vllm"] }}
    """
    (bench.directory / "ci-doctor.toml").write_text(config)
    os.mkfifo(bench.directory / "told")
    env = {"TOLD": str(bench.directory / "told")}
    ran = inside("correctness", "--report-dir", bench.reports, cwd=bench.directory, env=env)
    check(bench, ran, "regression", 1)
    assert "while it was in use: exit code 9" in json.dumps(bench.report["findings"])


@pytest.mark.parametrize(
    ("trait", "labels", "verdict", "code"),
    [
        ("hits", "", "pass", 0),
        ("misses", "{kind='miss'}", "pass", 0),
        ("", "", "void", 86),
        ("hits-by-reading", "", "void", 86),
        ("hits-by-time", "", "void", 86),
        ("hits-at-once", "", "void", 86),
        ("misses", "", "void", 86),
    ],
)
@pytest.mark.gate(2)
def test_a_pass_needs_the_proof_that_was_asked_for(
    bench: Bench, trait: str, labels: str, verdict: str, code: int
) -> None:
    config = f"""
        [correctness]
        requests = "requests.jsonl"
        [correctness.baseline]
        command = {json.dumps(bench.server())}
        [correctness.candidate]
        command = {json.dumps(bench.server(trait))}
        proof = [{{ metric = {json.dumps("kv_hits" + labels.replace("'", '"'))}, above = 0 }}]
    """
    (bench.directory / "ci-doctor.toml").write_text(config)
    ran = inside("correctness", "--report-dir", bench.reports, cwd=bench.directory)
    check(bench, ran, verdict, code)
    (proof,) = bench.report["facts"]["proof"]
    assert (proof["start"], proof["service"], proof["met"]) == ("B1", "candidate", code == 0)
    said = "rose by" if code == 0 else "not met"
    for text in (
        ran.out,
        *((bench.reports / name).read_text() for name in ("report.md", "report.html")),
    ):
        # Markdown escapes the underscore.
        assert "kv_hits" in text.replace("\\_", "_")
        assert said in text
    if code == 0 and not labels:
        assert f"{proof['before']:.0f} -> {proof['after']:.0f}, rose by" in " ".join(
            ran.out.split()
        )


# --- what both arms reach ---


def test_a_candidate_that_reads_what_the_baseline_wrote_does_not_pass(bench_apart: Bench) -> None:
    bench = bench_apart
    ran = bench.compare("keeps", "flip keeps", env=LOOKING)
    check(bench, ran, "void", 86)
    first, second = (each["name"].split()[0] for each in bench.report["attempts"])
    shared = {each["start"]: each for each in bench.report["facts"]["shared"]}
    (read, *_) = shared[second]["read"]
    assert (Path(read["path"]).parent, read["writer"]) == (bench.directory, first)
    assert read["path"] in shared[first]["written"]
    assert f"{second} read" in ran.out

    allowed: dict[str, str | None] = {"CI_DOCTOR_CORRECTNESS_SHARED": '["*/kept-*"]'}
    check(bench, bench.compare("keeps", "flip keeps", env=allowed), "pass", 0)


@pytest.mark.nightly
def test_a_temporary_directory_is_the_start_s_own_and_goes_with_it(bench: Bench) -> None:
    temporary = bench.directory / "tmp"
    temporary.mkdir()
    env = {**LOOKING, "TMPDIR": str(temporary)}
    ran = bench.compare("keeps-temporary", "flip keeps-temporary", env=env)
    check(bench, ran, "regression", 1)
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("kinds", ["sockets", "sockets,memory,folders"])
@pytest.mark.gate(1)
def test_what_each_start_leaves_is_one_row_by_kind_and_service(bench: Bench, kinds: str) -> None:
    proof = '[correctness.candidate]\nproof = [{ metric = "kv_hits_total", above = 0 }]\n'
    (bench.directory / "ci-doctor.toml").write_text(proof)
    arm = f"leaves={kinds} hits"
    ran = bench.compare(arm, arm, "--passes", "2", *ONE_PAIR)
    things = bench.report["facts"]["left_behind"]["things"]
    try:
        assert ran.code == 0, ran.out + ran.err
        assert len(things) == 2 * 6 * len(kinds.split(","))
        # One screen; what no known program leaves is a warning beside its row.
        assert len(ran.out.splitlines()) <= (24 if kinds == "sockets" else 30), ran.out
        left = ran.out.split("\nLeft behind\n")[1].split("\n\n")[0].splitlines()
        assert len(left) == 2 * len(kinds.split(",")), ran.out
        assert all(" 6 in " in line and len(line) <= 80 for line in left)
        page = (bench.reports / "report.html").read_text()
        assert all(thing["name"] in page for thing in things)
    finally:
        for thing in things:
            if thing["name"].startswith("/dev/shm/kept-"):
                os.unlink(thing["name"])  # noqa: PTH108


def test_answers_that_do_not_say_why_they_ended_do_not_pass(bench: Bench) -> None:
    check(bench, bench.compare("no-finish", "no-finish"), "void", 86)
    assert "no `finish_reason`" in bench.report["summary"]


# --- the control ---


def controls(bench: Bench) -> list[tuple[str, str]]:
    """Each start that got a control, and what that showed."""
    return sorted((each["start"], each["result"]) for each in bench.report["facts"]["control"])


@pytest.mark.parametrize("trait", ["ignores-prompts", "caches-all"])
@pytest.mark.gate(1)
def test_servers_that_do_not_read_their_prompts_prove_nothing(bench: Bench, trait: str) -> None:
    bench.ask(1)  # too few for a look at the answers alone
    ran = bench.compare(trait, trait)
    check(bench, ran, "void", 86)
    assert "gives r0 and a changed prompt the same answer" in " ".join(ran.out.split())
    assert "correctness/control" in bench.rules()
    # A run that goes on has the controls of its finished starts.
    words = bench.words(trait, trait)
    place = words.index("--report-dir")
    ran = inside(*words[:place], "--resume", *words[place + 1 :], cwd=bench.directory)
    check(bench, ran, "void", 86)
    assert [each for each, _ in controls(bench)] == ["A1", "B1"]


@pytest.mark.parametrize(
    ("trait", "reason"),
    [
        ("by-length", "no more than the length or the ends of a prompt"),
        ("by-ends", "no more than the length or the ends of a prompt"),
        ("echoes", "repeats its prompt and says little else, or is an error message"),
        ("tells-an-error", "repeats its prompt and says little else, or is an error message"),
        ("by-order", "the answers follow the order of the requests, and not the prompts"),
        ("no-logprobs", "lack the log-probabilities that were asked for"),
    ],
)
@pytest.mark.gate(1)
def test_answers_that_follow_something_else_than_the_prompts_prove_nothing(
    bench: Bench, trait: str, reason: str
) -> None:
    lines = []
    for number, word in enumerate(("rivers", "lakes", "mountains", "islands")):
        prompt = f"Name some of the {word} of this country, if you know any of them."
        body = {"prompt": prompt, "temperature": 0, "logprobs": 1}
        lines.append(json.dumps({"id": f"r{number}", "body": body}))
    (bench.directory / "requests.jsonl").write_text("\n".join(lines) + "\n")
    ran = bench.compare(trait, trait, "--concurrency", "1", "--passes", "2")
    check(bench, ran, "void", 86)
    assert reason in bench.report["summary"]


@pytest.mark.nightly
def test_a_control_can_be_turned_off_and_void_evidence_can_be_let_through(bench: Bench) -> None:
    config = bench.directory / "ci-doctor.toml"
    config.write_text("[correctness]\ncontrol = false\n")
    ran = bench.compare("ignores-prompts", "ignores-prompts")
    check(bench, ran, "void", 86)
    assert not bench.controls
    assert "the same answer to 4 different prompts" in " ".join(ran.out.split())
    assert "control = false" in (bench.reports / "report.md").read_text()
    config.write_text('[correctness]\nevidence = "report"\n')
    check(bench, bench.compare("ignores-prompts", "ignores-prompts"), "pass", 0)
    assert "correctness/control" in bench.rules()


@pytest.mark.nightly
def test_every_pass_is_asked_and_compared(bench: Bench) -> None:
    ran = bench.compare("", "", "--passes", "2", "--only", "r1", "--only", "r2")
    check(bench, ran, "pass", 0)
    assert sorted({(sample["pass"], sample["id"]) for sample in bench.samples}) == [(1, "r1"), (1, "r2"), (2, "r1"), (2, "r2")]  # fmt: skip


# --- what is left behind ---


def test_servers_that_ignore_sigterm_and_hide_are_ended(bench: Bench) -> None:
    check(bench, bench.compare("deaf", "", "--budget", "5m"), "pass", 0)
    assert "correctness/killed" in bench.rules()


@pytest.mark.parametrize("trait", ["silent", "never-ready deaf"])
@pytest.mark.gate(1)
def test_the_budget_ends_a_start_that_would_go_on_for_ever(bench: Bench, trait: str) -> None:
    ran = bench.compare(trait, trait, "--budget", "3s")
    check(bench, ran, "void", 86)
    assert "correctness/budget-spent" in bench.rules()
    # None at all if the machine is so busy that the budget is spent before the first start.
    assert all(start["outcome"].startswith("cut short") for start in bench.report["attempts"])
    report = bench.report
    assert report["summary"].startswith("the budget ended before a start had answered")
    assert f"--resume {bench.reports} --budget 1m" in report["findings"][0]["remedy"]


def until(bench: Bench, process: subprocess.Popen[bytes], moment: str) -> bytes:
    """Wait until the moment has come; what was read from stderr meanwhile."""
    if moment == "requests":
        told = os.open(bench.directory / "told", os.O_RDWR)
        try:
            assert select.select([told], [], [], LIMIT_S)[0], "no request ever came"
        finally:
            os.close(told)
        return b""
    assert process.stderr is not None
    read = b""
    while moment.encode() not in (line := process.stderr.readline()):
        assert line, read.decode()
        read += line
    return read + line


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("moment", "traits"),
    [("started", "never-ready deaf"), ("requests", "silent tell=1"), ("stopping", "deaf")],
)
@pytest.mark.gate(1)
def test_a_signal_ends_everything_and_keeps_what_was_gathered(
    bench: Bench, moment: str, traits: str, number: signal.Signals, times: int
) -> None:
    os.mkfifo(bench.directory / "told")
    process = bench.begin("", traits)
    if moment == "stopping":  # the candidate's, not the baseline's
        until(bench, process, "stopping")
    said = until(bench, process, moment if moment != "started" else "candidate started")
    for _ in range(times):
        process.send_signal(number)
    out, err = process.communicate()
    assert process.returncode == 128 + number, (said + err).decode()
    report = bench.report
    assert report["verdict"] is None
    assert report["exit_code"] == 128 + number
    assert number.name in report["error"]["message"]
    assert len([sample for sample in bench.samples if sample["output"]]) >= REQUESTS
    assert bench.report["attempts"][0]["outcome"] == "answered 4/4"
    assert b"Traceback" not in err + out


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGQUIT])
@pytest.mark.gate(1)
def test_a_lost_terminal_leaves_no_server_behind(bench: Bench, number: signal.Signals) -> None:
    os.mkfifo(bench.directory / "told")
    process = bench.begin("", "silent tell=1")
    until(bench, process, "requests")
    process.send_signal(number)
    out, err = process.communicate()
    assert process.returncode == 143, (out + err).decode()
    assert bench.report["verdict"] is None
    assert number.name in bench.report["error"]["message"]


@pytest.mark.nightly
def test_under_nohup_a_lost_terminal_changes_nothing(bench: Bench) -> None:
    os.mkfifo(bench.directory / "told")
    env = environment({"TOLD": str(bench.directory / "told")})
    # What nohup does, without its file: it is not on every machine.
    ignoring = [*after_shell("trap '' HUP"), *words(*bench.words("", "silent tell=1"))]
    process = subprocess.Popen(
        ignoring, cwd=bench.directory, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    until(bench, process, "requests")
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 143
    assert "SIGTERM" in bench.report["error"]["message"], "the first that was heard"


@pytest.mark.parametrize("target", ["/dev/full", None])
@pytest.mark.nightly
def test_a_verdict_stands_where_nothing_can_be_shown(bench: Bench, target: str | None) -> None:
    to = f">{target} 2>{target}" if target else ">&- 2>&-"
    line = bench.words("", "dies", *SOON)
    ran = doctor(*line, cwd=bench.directory, before=after_shell(f"exec {to}"))
    report = bench.report
    assert (report["verdict"], report["exit_code"]) == ("regression", 1), report["error"]
    assert ran.code == 1


@pytest.mark.nightly
def test_file_descriptors_that_run_out_are_not_the_servers_fault(bench: Bench) -> None:
    bench.ask(120)
    line = bench.words("slow", "slow", "--concurrency", "120")
    ran = doctor(*line, cwd=bench.directory, before=after_shell("ulimit -n 40"))
    assert ran.code == 75, ran
    assert "ulimit -n" in bench.report["error"]["hint"]


@pytest.mark.nightly
def test_nothing_of_an_earlier_run_is_taken_for_this_ones(bench: Bench) -> None:
    check(bench, bench.compare("", ""), "pass", 0)
    foreign = [bench.reports / "notes.txt", bench.reports / "logs" / "A1" / "notes.txt", bench.reports / "logs" / "Abc" / "x-1.log"]  # fmt: skip
    for path in foreign:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    check(bench, bench.compare("dies", ""), "failed", 1)
    # The order is drawn, so a start of the candidate may have come between; none answers in one start alone.
    started = {each["start"] for each in bench.samples if each["arm"] == "candidate"}
    assert not [each for each in bench.samples if each["arm"] == "baseline"]
    logs = {f"logs/B{number}/candidate-1.log" for number in started}
    left = {
        str(path.relative_to(bench.reports)) for path in bench.reports.rglob("*") if path.is_file()
    }
    assert left == {
        "report.json", "report.md", "report.html", "junit.xml", "attempts.xml", "samples.jsonl", "starts.jsonl", "run.json", "environment.json", "logs/A1/baseline-1.log", "logs/A2/baseline-1.log",
        "notes.txt", "logs/A1/notes.txt", "logs/Abc/x-1.log", *logs,
    }  # fmt: skip


def test_a_mistake_leaves_no_earlier_report_as_if_it_were_current(bench: Bench) -> None:
    default = bench.directory / "ci-doctor-report"
    default.mkdir()
    (default / "report.json").write_text('{"verdict": "pass"}')
    ran = inside("correctness", "--requests", "requests.jsonl", cwd=bench.directory)
    assert ran.code == 2, ran
    report = json.loads((default / "report.json").read_text())
    assert (report["verdict"], report["error"]["kind"]) == (None, "usage")


@pytest.mark.parametrize("where", ["text", "log"])
@pytest.mark.gate(1)
def test_secrets_of_an_arm_are_told_nowhere(bench: Bench, where: str) -> None:
    traits = "secret-text" if where == "text" else "tells-secret dies"
    keys = (f"--env=candidate:API_KEY={SECRET}", f"--env=baseline:API_KEY={SECRET}-too")
    ran = bench.compare(traits, traits, *keys, *(ONE_PAIR if where == "text" else ()))
    assert SECRET not in ran.out + ran.err
    for path in bench.reports.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
    assert bench.report["verdict"] == ("inconclusive" if where == "text" else "failed"), ran


# --- bad input: exit code 2, and nothing started ---


def mistake(bench: Bench, *words: str | Path) -> Ran:
    ran = inside(*words, cwd=bench.directory)
    assert ran.code == 2, ran
    assert not list(bench.directory.rglob("*.log")), "something was started"
    return ran


@pytest.mark.parametrize(
    ("name", "content", "words", "said"),
    [
        (
            "requests.jsonl",
            '{"id": "a", "body": {}}\n{"id": "a", "body": {}}\n',
            (),
            "requests.jsonl:2: id `a` is already used in line 1",
        ),
        ("requests.jsonl", '{"id": "a", "bodi": {}}', (), "did you mean `body`?"),
        (
            "ci-doctor.toml",
            "[correctness]\nretris = 3\n",
            (),
            "ci-doctor.toml:2: unknown key `retris`",
        ),
        ("ci-doctor.toml", '[correctness]\nbaseline = "vllm serve"\n', (), "ci-doctor.toml:2"),
        ("ci-doctor.toml", "[correctness\n", (), "ci-doctor.toml:1"),
        ("notes", "", ("--env", "candidat:X=1"), "did you mean `candidate`?"),
        ("notes", "", ("--candidate", "pyton3 {port}"), "command not found: pyton3"),
        ("notes", "", ("--requests", "nowhere.jsonl"), "nowhere.jsonl: no such file"),
        ("notes", "", ("--only", "r9"), "no request has the id `r9`"),
        ("notes", "", ("--budget", "soon"), "budget: not a duration"),
        ("notes", "", ("--config", "nowhere.toml"), "nowhere.toml"),
    ],
)
@pytest.mark.gate(4)
def test_what_is_wrong_is_named_before_anything_is_started(
    bench: Bench, name: str, content: str, words: tuple[str, ...], said: str
) -> None:
    (bench.directory / name).write_text(content)
    ran = mistake(bench, *bench.words(), *words)
    assert said in ran.err, ran
    assert bench.report["verdict"] is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--budget", "5x"), "budget: not a duration"),
        (("--request-timeout", "0"), "request_timeout must be more than 0"),
        (("--limit", "far"), "far"),
        (("--alpha", "2"), "alpha"),
    ],
)
@pytest.mark.gate(2)
def test_a_mistyped_value_comes_before_what_is_missing(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    ran = inside("correctness", *words, cwd=tmp_path)

    assert ran.code == 2, ran
    assert said in ran.err
    assert "requests file" not in ran.err


def test_a_missing_arm_is_named(bench: Bench) -> None:
    ran = mistake(
        bench, "correctness", "--baseline", bench.server(), "--requests", "requests.jsonl"
    )
    assert "the candidate is missing" in ran.err


def test_a_report_directory_or_samples_that_cannot_be_are_found_first(bench: Bench) -> None:
    bench.reports.write_text("a file in its place")
    mistake(bench, *bench.words())
    bench.reports.unlink()
    (bench.reports / "samples.jsonl").mkdir(parents=True)
    mistake(bench, *bench.words())


# --- what is printed ---


def test_json_is_all_that_stdout_holds(bench: Bench) -> None:
    # A process of its own: nothing but its report may come to its stdout.
    ran = doctor(*bench.words("", "", "--json"), cwd=bench.directory)
    assert json.loads(ran.out)["verdict"] == "pass"
    assert "A1  baseline started" in ran.err


@pytest.mark.nightly
def test_a_log_that_nobody_reads_stops_nothing(bench: Bench) -> None:
    process = bench.begin()
    assert process.stderr is not None
    process.stderr.close()
    process.stderr = None
    process.communicate()
    assert process.returncode == 0
    assert bench.report["verdict"] == "pass"
