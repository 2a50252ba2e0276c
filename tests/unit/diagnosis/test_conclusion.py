# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.diagnosis.conclusion import next_command, subject_of
from ci_doctor.diagnosis.diagnosis import diagnose, load_rules, outcome_of
from ci_doctor.model.cause import FailureClass, RetryPolicy
from ci_doctor.model.facts.diagnose import DiagnoseFacts
from tests.support.diagnoses import cause_of, diagnosed

PYTEST = [
    "____ test_a[fp8] ____",
    "",
    "    def test_a(client):",
    ">       assert client.get() == 3",
]
FRAMES = [
    "Traceback (most recent call last):",
    '  File "/srv/one/vllm/engine.py", line 12, in start',
    "    check()",
    '  File "/srv/one/vllm/loader.py", line 7, in check',
    "    assert x",
]


def test_an_assertion_is_about_its_test() -> None:
    assert subject_of("E       assert 4 == 3", PYTEST) == "test_a[fp8]"
    above = ["FAIL: test_a (tests.test_b.C)", "-----", *FRAMES]
    assert subject_of("AssertionError: 3 != 4", above) == "test_a (tests.test_b.C)"
    assert subject_of("/w/a_test.cc:12: Failure", ["[ RUN      ] Foo.Bar", "x"]) == "Foo.Bar"


def test_an_exception_without_words_is_about_the_function_that_raised_it() -> None:
    assert subject_of("AssertionError", FRAMES) == "loader.py check"
    assert subject_of("KeyError: 0", FRAMES) == "loader.py check"


def test_an_exception_with_words_is_about_nothing_else() -> None:
    assert subject_of("ValueError: the head is odd", [*PYTEST, *FRAMES]) == ""
    assert subject_of("E       assert 4 == 3", []) == ""


JAVA = """\
Exception in thread "main" org.example.StartError: cannot start the service
\tat org.example.Main.main(Main.java:12)
Caused by: org.example.PoolException: pool is closed
\tat org.example.Pool.open(Pool.java:40)
\t... 1 more
Caused by: java.io.IOException: the widget is odd
\t... 3 more
"""
DOTNET = """\
Unhandled exception. System.InvalidOperationException: cannot start
 ---> System.Data.DataException: the pool is closed
 ---> System.IO.IOException: the widget is odd
   at System.IO.File.Open()
   --- End of inner exception stack trace ---
   at Program.Main() in /w/Program.cs:line 4
"""
NODE = """\
Error: cannot start
    at main (/w/index.js:5:9) {
  [cause]: Error: the pool is closed
      at open (/w/pool.js:2:9) {
    [cause]: Error: the widget is odd
        at open (/w/widget.js:3:1)
  }
}

Node.js v20.20.2
"""
RUST = """\
Error: cannot start the service

Caused by:
    0: the pool is closed
    1: the widget is odd
"""
LOADER = """\
Traceback (most recent call last):
  File "/w/train.py", line 20, in <module>
    for batch in loader:
  File "/venv/torch/_utils.py", line 733, in reraise
    raise exception
KeyError: Caught KeyError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/venv/torch/utils/data/_utils/worker.py", line 349, in _worker_loop
    data = fetcher.fetch(index)
KeyError: 'the widget is odd'
"""
REMOTE = """\
multiprocessing.pool.RemoteTraceback:
\"\"\"
Traceback (most recent call last):
  File "/w/m.py", line 3, in f
    raise ValueError("the widget is odd")
ValueError: the widget is odd
\"\"\"

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/w/m.py", line 6, in <module>
    p.map(f, [1])
RuntimeError: a worker has failed
"""


@pytest.mark.parametrize("text", [JAVA, DOTNET, NODE, RUST, LOADER, REMOTE])
def test_the_innermost_cause_is_named(tmp_path: Path, text: str) -> None:
    # So short a log names no cause by itself: jobs that passed print such chains, too.
    cause = cause_of(tmp_path, f"starting\n{text}", 1)

    assert "the widget is odd" in cause.place.text


# How pydantic and PyTorch list what is wrong: a header that counts, and the reasons below it.
COUNTED = """\
{0}Traceback (most recent call last):
{0}  File "/w/engine/options.py", line 40, in make
{0}    return Options(**given)
{0}pydantic_core._pydantic_core.ValidationError: 2 validation errors for EngineOptions
{0}sampler
{0}  Input should be 'fast' or 'exact' [type=literal_error, input_value='fsat', input_type=str]
{0}    For further information visit https://errors.pydantic.dev/2.11/v/literal_error
"""
OF_COUNTED = "EngineOptions.sampler='fsat': Input should be 'fast' or"
WITHOUT_FIELD = """\
Traceback (most recent call last):
  File "/w/engine/options.py", line 40, in make
    return Options(**given)
pydantic.ValidationError: 1 validation error for ModelConfig
  Value error, User-specified max_model_len (90000) is greater than the derived max_model_len (1024 tokens). [type=value_error, input_value=ArgsKwargs((), {'a': 1}), input_type=ArgsKwargs]
"""
FIRST_VERSION = """\
Traceback (most recent call last):
  File "/w/engine/options.py", line 40, in make
    return Settings(**given)
pydantic.error_wrappers.ValidationError: 1 validation error for Settings
port
  value is not a valid integer (type=type_error.integer)
"""
MISSING = """\
Traceback (most recent call last):
  File "/w/engine/options.py", line 40, in make
    return SamplerOptions(**given)
pydantic_core._pydantic_core.ValidationError: 1 validation error for SamplerOptions
steps.0.name
  Field required [type=missing, input_value={'port': 1}, input_type=dict]
"""
STATE = """\
Traceback (most recent call last):
  File "/w/engine/load.py", line 40, in load
    model.load_state_dict(weights)
RuntimeError: Error(s) in loading state_dict for Tiny:
\tsize mismatch for head.weight: copying a param with shape torch.Size([4, 2])
"""


# What servers of several makers say of a limit: whose it is, no log tells.
LIMITS = (
    "RuntimeError: can't start new thread",
    "terminate called after throwing an instance of 'std::system_error'\n  what():  Resource temporarily unavailable",
    "/entry.sh: fork: retry: Resource temporarily unavailable",
    "[2026-11-29 10:00:00] ERROR: OSError: [Errno 24] Too many open files: '/models/a.json'",
    "zmq.error.ZMQError: Too many open files",
    "common_init: error: open: Too many open files",
    "OSError: [Errno 27] File too large",
)


@pytest.mark.parametrize("text", LIMITS)
def test_of_a_limit_of_processes_or_files_a_person_is_asked(tmp_path: Path, text: str) -> None:
    cause = cause_of(tmp_path, f"server is starting\n{text}\n", 1)

    assert (cause.class_, cause.retry) == (FailureClass.RESOURCE_LIMIT, RetryPolicy.ASK)
    assert cause.place.message in text.replace("  what():  ", "")


# Memory of another, or an instruction that this CPU lacks: another machine may do better, or another run.
CRASHES = (
    "!!!!!!! Segfault encountered !!!!!!!",
    "Fatal Python error: Bus error",
    "./serve.sh: line 3:    77 Illegal instruction     (core dumped) python serve.py",
    "*** SIGSEGV received at time=1746566409 on cpu 131 ***",
)


@pytest.mark.parametrize("text", CRASHES)
def test_of_a_crash_of_native_code_a_person_is_asked(tmp_path: Path, text: str) -> None:
    cause = cause_of(tmp_path, f"server is starting\n{text}\n", 1)

    assert (cause.rule, cause.retry, cause.may_be_retried) == ("crash/segfault", "ask", False)


# A name that the server was given to listen on is no host that did not answer.
LISTENS = """\
{0}Traceback (most recent call last):
{0}  File "/w/serve/start.py", line 48, in listen
{0}    sock.bind(addr)
{0}{1}{2}
"""


@pytest.mark.parametrize("carets", ["", "    ~~~~~~~~~^^^^^^\n"])
@pytest.mark.parametrize("prefix", ["", "(APIServer pid=7) "])
@pytest.mark.parametrize(
    "error",
    [
        "socket.gaierror: [Errno -2] Name or service not known",
        "PermissionError: [Errno 13] Permission denied",
    ],
)
def test_an_address_that_nobody_can_listen_on_is_of_the_configuration(
    tmp_path: Path, prefix: str, error: str, carets: str
) -> None:
    cause = cause_of(tmp_path, LISTENS.format(prefix, prefix * bool(carets) + carets, error), 1)

    assert cause.place.message == error
    assert (cause.class_, cause.retry) == (FailureClass.CONFIGURATION, RetryPolicy.NO)


def test_a_resolver_that_does_not_answer_is_of_the_network(tmp_path: Path) -> None:
    error = "socket.gaierror: [Errno -3] Temporary failure in name resolution"

    cause = cause_of(tmp_path, LISTENS.format("", "", error), 1)

    assert (cause.class_, cause.may_be_retried) == (FailureClass.NETWORK, False)


CHOICES = (
    "KeyError: 'invalid tool call parser: nobody (chose from { hermes,mistral })'",
    "ValueError: Unknown attention backend: 'fast' (choose from ['eager', 'sdpa'])",
    "AssertionError: Not enough allowed NUMA nodes to bind threads of 2 local CPUWorkers.",
)


@pytest.mark.parametrize("text", CHOICES)
def test_a_value_that_is_none_of_those_listed_is_of_the_configuration(
    tmp_path: Path, text: str
) -> None:
    frame = '  File "/w/serve/start.py", line 48, in main\n    check(args)\n'

    cause = cause_of(tmp_path, f"Traceback (most recent call last):\n{frame}{text}\n", 1)

    assert (cause.class_, cause.retry) == (FailureClass.CONFIGURATION, RetryPolicy.NO)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (COUNTED.format(""), 6, OF_COUNTED),
        (COUNTED.format("(EngineCore pid=7) "), 6, OF_COUNTED),
        (COUNTED.format("[2026-11-29 10:00:00 TP0] "), 6, OF_COUNTED),
        (WITHOUT_FIELD, 5, "Value error, User-specified max_model_len (90000) is greater"),
        (FIRST_VERSION, 6, "Settings.port: value is not a valid integer"),
        (MISSING, 6, "SamplerOptions.steps.0.name: Field required"),
        (STATE, 5, "size mismatch for head.weight: copying a param"),
    ],
)
def test_of_a_header_that_counts_mistakes_the_first_is_named(
    tmp_path: Path, text: str, line: int, reason: str
) -> None:
    cause = cause_of(tmp_path, text, 1)

    assert (cause.place.line, cause.place.message.startswith(reason)) == (line, True)
    assert (cause.class_, cause.retry) == (FailureClass.CONFIGURATION, RetryPolicy.NO)


def test_a_cause_below_other_output_belongs_to_something_else(tmp_path: Path) -> None:
    text = f"{JAVA.splitlines()[0]}\nthe next step begins\n{JAVA.splitlines()[5]}\n"

    assert cause_of(tmp_path, text).place.line == 1


TRACEBACK = """\
ERROR 11-22 14:00:09 [core.py:935] Traceback (most recent call last):
ERROR 11-22 14:00:09 [core.py:935]   File "/w/core.py", line 12, in run
ERROR 11-22 14:00:09 [core.py:935]     f(sinks=1)
ERROR 11-22 14:00:09 [core.py:935] TypeError: f() got an unexpected keyword argument 'sinks'
RuntimeError: Engine core initialization failed. See root cause above.
"""
CLIENT = """\
2026-11-22T14:58:00.000+01:00 GET /health: Connection refused
2026-11-22T15:05:10.000+01:00 client: TimeoutError: Timed out waiting for server after 300 s
2026-11-22T15:05:11.000+01:00 client: bye
"""


def _consequences(tmp_path: Path, **logs: str) -> list[tuple[str, int | None]]:
    names = []
    for name, text in logs.items():
        path = tmp_path / f"{name}.log"
        path.write_text(text)
        names.append(str(path))
    cause = diagnose(names, load_rules()).cause
    assert cause is not None
    assert cause.rule == "api/unexpected-argument"
    return [(Path(place.file).stem, place.line) for place in cause.consequences]


def test_what_stands_above_the_cause_does_not_follow_from_it(tmp_path: Path) -> None:
    above = "curl: (7) Failed to connect to localhost port 8000: Connection refused\n"
    below = "make: *** [Makefile:3: test] Error 1\nmake: Leaving directory '/w'\n"
    assert _consequences(tmp_path, job=above + TRACEBACK + below) == [("job", 6), ("job", 7)]


def test_a_time_out_in_another_log_follows_in_the_order_of_time(tmp_path: Path) -> None:
    server = "INFO 11-22 14:00:01 [core.py:10] Starting\n" + TRACEBACK
    chain = [("server", 6), ("client", 2)]
    assert _consequences(tmp_path, client=CLIENT, server=server) == chain
    assert _consequences(tmp_path, server=server, client=CLIENT) == chain


TEMPLATE = "ci-doctor import-race probe {module}:{name}"


def test_captures_stand_in_the_command() -> None:
    fields = {"module": "transformers.utils", "name": "GenerationConfig"}

    command = next_command(TEMPLATE, fields)

    assert command == "ci-doctor import-race probe transformers.utils:GenerationConfig"


@pytest.mark.parametrize(
    "name", ["", "x; rm -rf ~", "$(id)", "`id`", "-rf", "a b", "a\nb", "a'b", "a|b", "\u202ea"]
)
def test_what_may_act_in_a_shell_makes_no_command(name: str) -> None:
    assert next_command(TEMPLATE, {"module": "os", "name": name}) is None


def test_without_a_template_or_a_capture_there_is_none() -> None:
    assert next_command(None, {}) is None
    assert next_command(TEMPLATE, {"module": "os"}) is None
    assert next_command("ci-doctor setup-env", {}) == "ci-doctor setup-env"


BOUND = "ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 8000): address already in use"
STARTED = "INFO:     Started server process [4711]\nINFO:     Waiting for application startup.\n"
STOPPED = "INFO:     Waiting for application shutdown.\nINFO:     Application shutdown complete.\n"


def named(folder: Path, text: str, status: int | None) -> str | None:
    facts = outcome_of(diagnosed(folder, text, status)).facts
    assert isinstance(facts, DiagnoseFacts)
    return None if facts.root_cause is None else facts.root_cause.place.text


@pytest.mark.parametrize(
    "end",
    [
        STOPPED,
        f"{STOPPED}INFO:     Finished server process [4711]\n",
        f"{STOPPED}INFO:     Stopping parent process [4710]\n",
    ],
)
def test_a_server_that_stops_in_order_after_a_cause_has_not_ended_well(
    tmp_path: Path, end: str
) -> None:
    assert named(tmp_path, f"{STARTED}{BOUND}\n{end}", None) == BOUND


@pytest.mark.parametrize(
    ("last", "is_good"),
    [
        ("Found 3 errors in 1 file (checked 4 source files)", False),
        ("Found 1 error.", False),
        ("2 errors, 0 warnings, 0 informations", False),
        ("Found 0 errors in 4 files", True),
        ("0 errors, 2 warnings, 0 informations", True),
    ],
)
def test_a_checker_that_found_errors_after_passed_tests_is_no_good_end(
    tmp_path: Path, last: str, *, is_good: bool
) -> None:
    text = f"====== 4 passed in 0.10s ======\n$ check .\n{last}\n"
    assert diagnosed(tmp_path, text).ended_well is is_good


def test_tests_that_passed_before_a_tool_failed_are_no_good_end(tmp_path: Path) -> None:
    passed = ".x.   [100%]\n3 passed, 1 xfailed in 0.30s\n"
    failed = "Error: coverage 71% is below 80%\nmake: *** [Makefile:3: cov] Error 1\n"

    assert diagnosed(tmp_path, passed).ended_well
    assert not diagnosed(tmp_path, passed + failed).ended_well


# As vLLM 0.32.0 writes it, also where it is stopped from outside; its logger's place and process are left out.
ENGINE_DIED = """\
ERROR 11-29 21:34:08 [async_llm.py:906] AsyncLLM output_handler failed.
ERROR 11-29 21:34:08 [async_llm.py:906] Traceback (most recent call last):
ERROR 11-29 21:34:08 [async_llm.py:906]   File "/opt/vllm/v1/engine/core_client.py", line 1235, in get_output_async
ERROR 11-29 21:34:08 [async_llm.py:906]     raise self._format_exception(outputs) from None
ERROR 11-29 21:34:08 [async_llm.py:906] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.
INFO:     Shutting down
"""
WORKER_FAILED = """ERROR 11-29 21:34:08 [multiproc_executor.py:1063] WorkerProc hit an exception.
ERROR 11-29 21:34:08 [multiproc_executor.py:1063] Traceback (most recent call last):
ERROR 11-29 21:34:08 [multiproc_executor.py:1063]   File "/opt/vllm/v1/worker/gpu_model_runner.py", line 3502, in _bookkeeping_sync
ERROR 11-29 21:34:08 [multiproc_executor.py:1063]     gen.set_offset(gen.get_offset() - 4)
ERROR 11-29 21:34:08 [multiproc_executor.py:1063] RuntimeError: CPU Generator does not use offset
"""


@pytest.mark.parametrize(("before", "ends_well"), [("", True), (WORKER_FAILED, False)])
def test_a_server_that_stops_in_order_has_ended_well_unless_its_worker_failed_right_before(
    tmp_path: Path, before: str, ends_well: bool
) -> None:
    text = f"{STARTED}{before}{ENGINE_DIED}{STOPPED}"

    assert diagnosed(tmp_path, text).ended_well == ends_well


def test_a_server_that_stops_in_order_long_after_an_error_has_ended_well(tmp_path: Path) -> None:
    requests = 'INFO:     127.0.0.1:40000 - "POST /v1/completions HTTP/1.1" 200 OK\n' * 20

    assert named(tmp_path, f"{STARTED}{BOUND}\n{requests}{STOPPED}", None) is None


@pytest.mark.parametrize(
    "end", ["All checks passed!", "Job succeeded", "Finished: SUCCESS", "done"]
)
def test_words_of_success_do_not_outweigh_a_failed_status(tmp_path: Path, end: str) -> None:
    text = f"collecting\nerror: widget 3 does not fit\n{end}\n"

    assert named(tmp_path, text, 1) == "error: widget 3 does not fit"


def test_a_status_of_success_names_no_cause(tmp_path: Path) -> None:
    assert named(tmp_path, f"{STARTED}{BOUND}\n", 0) is None


def test_last_words_that_no_rule_knows_are_one_possibility_and_no_class(tmp_path: Path) -> None:
    cause = cause_of(tmp_path, "loading\nmytool: widget mismatch at 3\n", 1)

    assert (cause.place.line, cause.class_) == (2, None)
    assert cause.likelihood == "one possibility among others"


def test_a_traceback_that_begins_behind_other_words_ends_with_its_exception(tmp_path: Path) -> None:
    text = (
        '{"status": "ok"}Traceback (most recent call last):\n  File "ask.py", line 3, in <module>\n'
        "    ask()\nConnectionRefusedError: [Errno 111] Connection refused\n"
    )

    assert cause_of(tmp_path, text, 1).place.line == 4


@pytest.mark.parametrize("status", [124, 137, 139, 143, -9])
def test_what_ended_by_a_signal_or_a_limit_had_no_last_words(tmp_path: Path, status: int) -> None:
    assert named(tmp_path, "loading weights\n", status) is None


@pytest.mark.parametrize(
    ("status", "words"),
    [(137, "SIGKILL"), (-11, "SIGSEGV"), (124, "timeout(1)"), (3, "exit code 3")],
)
def test_the_status_is_said_where_no_line_explains_it(
    tmp_path: Path, status: int, words: str
) -> None:
    assert words in outcome_of(diagnosed(tmp_path, "ok\n", status)).summary


def test_what_the_status_alone_has_named_asks_for_no_retry(tmp_path: Path) -> None:
    text = "curl: (6) Could not resolve host: pypi.org\nAll checks passed!\n"
    cause = cause_of(tmp_path, text, 1)

    assert diagnosed(tmp_path, text).cause is None
    assert (cause.class_, cause.may_be_retried) == ("network", False)


def test_of_several_logs_the_quiet_ones_have_no_last_words(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("a client writes this\n")
    (tmp_path / "b.log").write_text("error: widget 3 does not fit\n")
    names = [str(tmp_path / "a.log"), str(tmp_path / "b.log")]

    cause = diagnose(names, load_rules(), status=1).cause

    assert cause is not None
    assert cause.place.file == names[1]
