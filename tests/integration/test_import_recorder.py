# SPDX-License-Identifier: Apache-2.0
"""What the recorder writes in real interpreters, and that the program it watches runs as without it."""

import ast
import subprocess
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.imports.recording import recording
from tests.integration.preload_venvs import each_interpreter, interpreters, skip_without

pytestmark = pytest.mark.integration

REPLACES_ITSELF = """
import sys, types
lazy = types.ModuleType(__name__)
lazy.__spec__, lazy.__file__, lazy.thing = __spec__, __file__, 1
sys.modules[__name__] = lazy
"""
BACKGROUND_FIRST = """
import threading
def warm_up():
    import lazy
thread = threading.Thread(target=warm_up, name="warm-up")
thread.start()
while "lazy" not in __import__("sys").modules or thread.is_alive():
    pass
from lazy import thing
"""
# The second import does not wait until the first one is over.
AT_ONCE = BACKGROUND_FIRST.replace(" or thread.is_alive()", "")
CYCLE = {"one.py": "import two\nvalue = 1", "two.py": "import one\nvalue = 2"}


class Program:
    """A program in a folder, and one interpreter to run it."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.python, self.folder, self.records = python, folder, list[tuple[Any, ...]]()
        self.traces = folder / "traces"

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))

    def run(
        self, text: str, *options: str, hold: str | None = None, recorded: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run `text` as app.py; the records of all processes are then in `records`, each with the name of its trace first."""
        self.write({"app.py": text})
        self.traces.mkdir(exist_ok=True)
        for old in self.traces.iterdir():
            old.unlink()
        environ = {"PATH": "/usr/bin:/bin"}
        ran = subprocess.run(
            [self.python, *options, "app.py"],
            env=recording(environ, self.traces, hold) if recorded else environ,
            cwd=self.folder, capture_output=True, text=True, check=False, timeout=180,
        )  # fmt: skip
        self.records = [
            (path.name, *ast.literal_eval(line))
            for path in sorted(self.traces.iterdir())
            for line in path.read_text().splitlines()
        ]
        return ran

    def of(self, kind: str, name: str | None = None) -> list[tuple[Any, ...]]:
        """The records of one kind, without trace and kind; where `name` is given those of that module's events."""
        found = [record[2:] for record in self.records if record[1] == kind]
        return [record for record in found if name is None or record[3] == name]


def program_of(python: Path, folder: Path) -> Program:
    skip_without(python)
    made = Program(python, folder)
    made.write({"lazy.py": REPLACES_ITSELF, **CYCLE, "plain.py": "value = 1"})
    return made


@pytest.fixture(params=each_interpreter())
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Program:
    return program_of(interpreters()[request.param], tmp_path)


@pytest.fixture
def own_program(tmp_path: Path) -> Program:
    return program_of(interpreters()["own"], tmp_path)


def test_first_load_use_and_their_places_are_recorded(program: Program) -> None:
    ran = program.run(BACKGROUND_FIRST)
    assert (ran.returncode, ran.stderr) == (0, "")
    ((_, loader, _, _, status, replaced),) = program.of("end", "lazy")
    assert (loader, status, replaced) == (1, "loaded", True)
    by_background, by_main = program.of("ask", "lazy")
    assert (by_background[1], Path(by_background[5]).name, by_background[6]) == (1, "app.py", 4)
    assert (by_main[1], by_main[4], by_main[6:]) == (
        0,
        "statement",
        (9, "__main__", ("thing",), None),
    )
    assert [number for _, number in program.of("ended")] == [1]
    (started,) = [record for record in program.of("thread") if record[1] == 1]
    assert (started[2], started[3], Path(started[4]).name, started[5]) == (
        "warm-up",
        0,
        "app.py",
        6,
    )


def test_waiting_for_a_module_that_is_replaced_is_told_as_such(program: Program) -> None:
    ran = program.run(AT_ONCE, hold="exec lazy - 20")
    assert "cannot import name 'thing' from 'lazy'" in ran.stderr
    ((_, waiter, _, _, owner, _, outcome),) = program.of("wait", "lazy")
    assert (waiter, owner, outcome) == (0, 1, "replaced")
    assert {record[-1] for record in program.of("held")} == {True}


def test_python_code_that_imports_is_handed_the_new_module(program: Program) -> None:
    text = AT_ONCE.replace(
        "from lazy import thing", "import importlib; importlib.import_module('lazy').thing"
    )
    # The hold waits for an import statement: a second thread makes one.
    text += "\nother.join()"
    text = text.replace(
        "import importlib;",
        "other = threading.Thread(target=lambda: __import__('lazy')); other.start()\nimport importlib;",
    )
    ran = program.run(text, hold="exec lazy - 20")
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize(
    ("read", "missing"),
    [
        ("import lazy; hasattr(lazy, 'nothing'); getattr(lazy, 'thing', None)", ["thing"]),
        ("import lazy; hasattr(lazy, 'sys'); hasattr(lazy, 'nothing')", []),
        ("exec('from lazy import *', {})", ["*"]),
        ("from lazy import sys", []),
    ],
)
def test_names_that_are_missing_in_the_discarded_module_are_recorded(
    program: Program, read: str, missing: list[str]
) -> None:
    ran = program.run(AT_ONCE.replace("from lazy import thing", read), hold="exec lazy - 20")

    assert (ran.returncode, ran.stderr) == (0, "")
    found = program.of("missing", "lazy")
    assert [record[4] for record in found] == missing
    assert all(Path(record[5]).name in ("app.py", "<string>") for record in found)


# A cycle whose second entry is handed the module `one` before all of its names are there: CPython gives way to the
# thread that comes to wait last (importlib keeps who waits by thread).
HANDED_OUT = {
    "one.py": "early = 1\nimport two\nlate = 1\n",
    "two.py": "import sys, importlib._bootstrap as bootstrap\n"
    "background = sys.modules['__main__'].thread.ident\n"
    "while not bootstrap._blocking_on.get(background): pass\n"
    "import one\n{read}\n",
}


@pytest.mark.parametrize(
    ("read", "missing"),
    [
        ("one.early; hasattr(one, 'late'); hasattr(one, 'never')", {"late"}),
        ("from one import early", set()),
        ("try:\n    from one import late\nexcept ImportError: pass", {"late"}),
        ("try:\n    from one import never\nexcept ImportError: pass", set()),
        ("from one import *", {"*"}),
    ],
)
def test_names_that_are_missing_in_an_incomplete_module_are_recorded(
    own_program: Program, read: str, missing: set[str]
) -> None:
    files = {name: text.replace("{read}", read) for name, text in HANDED_OUT.items()}
    own_program.write(files)
    text = """
        import threading
        def background():
            import one
        thread = threading.Thread(target=background)
        thread.start()
        import two
        thread.join()
    """
    own_program.run(text, hold="together one two 60")

    assert {record[-1] for record in own_program.of("deadlock", "one")} == {False}
    absent = {attribute for _, attribute in own_program.of("absent")}
    found = {record[4] for record in own_program.of("missing", "one")}
    assert found - absent == missing


BOTH_SIDES = """
    import threading
    def enter():
        import two
    thread = threading.Thread(target=enter)
    thread.start()
    try:
        import one
    except ImportError:
        pass
    thread.join()
"""


@pytest.mark.parametrize("hold", ["together one two 20", "together two one 20"])
def test_a_cycle_is_entered_from_both_sides(program: Program, hold: str) -> None:
    program.run(BOTH_SIDES, hold=hold)
    assert {record[3] for record in program.of("deadlock")} <= {"one", "two"}
    assert program.of("deadlock")


@pytest.mark.parametrize(("late", "other"), [("one", "two"), ("two", "one")])
def test_the_import_that_came_before_the_late_module_is_the_one_that_fails(
    program: Program, late: str, other: str
) -> None:
    program.run(BOTH_SIDES, hold=f"late {late} {other} 20")

    # CPython gives way to the thread that waits last, whichever thread the machine runs first.
    ((*_, name, _, held, raised),) = program.of("deadlock")
    assert (name, held[0], raised) == (late, other, True)


def test_a_hold_ends_when_nobody_comes(program: Program) -> None:
    ran = program.run("import lazy\nprint(lazy.thing)", hold="exec lazy - 0.05")
    assert (ran.stdout, ran.stderr) == ("1\n", "")
    assert [record[-1] for record in program.of("held")] == [False]


def known_before_main_asks(program: Program) -> tuple[int, int]:
    """The last event of the thread that loaded `plain`, and how many of it come before the main thread's import of it."""
    ((_, loader, number, *_),) = program.of("end", "plain")
    asked = next(
        index
        for index, record in enumerate(program.records)
        if record[1] == "ask" and record[3] == 0 and record[5] == "plain"
    )
    known = [record[3] for record in program.records[:asked] if record[1:3] == ("order", 0)]
    return number, known[-1].get(loader, 0) if known else 0


@pytest.mark.parametrize(
    "wait",
    [
        "thread.join()",
        "done.wait()",
        "items.get()",
        "pool.submit(work).result()",
        "list(pool.map(lambda _: work(), [1]))",
        "barrier.wait()",
        "semaphore.acquire()",
    ],
)
def test_what_hands_on_from_thread_to_thread_is_an_order(own_program: Program, wait: str) -> None:
    text = f"""
        import concurrent.futures, queue, threading
        done, items, barrier, semaphore = threading.Event(), queue.Queue(), threading.Barrier(2), threading.Semaphore(0)
        pool = concurrent.futures.ThreadPoolExecutor()
        def work():
            import plain
        def run():
            work(); done.set(); items.put(1); semaphore.release()
            if "barrier" in {wait!r}: barrier.wait()
        thread = threading.Thread(target=run)
        if "pool" not in {wait!r}: thread.start()
        {wait}
        import plain
    """
    assert own_program.run(text).stderr == ""
    number, known = known_before_main_asks(own_program)
    assert known >= number


def at_exit(program: Program, start: str) -> tuple[int, int]:
    """As `known_before_main_asks`, where it is atexit that imports `plain`."""
    ran = program.run(f"""
        import atexit, concurrent.futures, threading
        def work():
            import plain
        def last():
            import plain
        atexit.register(last)
        pool = concurrent.futures.ThreadPoolExecutor()
        {start}
    """)
    assert ran.stderr == ""
    return known_before_main_asks(program)


@pytest.mark.parametrize("start", ["threading.Thread(target=work).start()", "pool.submit(work)"])
def test_the_threads_that_python_joins_at_its_end_come_before_atexit(
    program: Program, start: str
) -> None:
    number, known = at_exit(program, start)

    assert known >= number


def test_a_daemon_is_not_joined_at_the_end(own_program: Program) -> None:
    start = "threading.Thread(target=work, daemon=True).start()"
    start += "\n        while 'plain' not in __import__('sys').modules: pass"

    number, known = at_exit(own_program, start)

    assert known < number


@pytest.mark.parametrize(
    "wait",
    [
        "thread.join(5)",
        "done.wait(5)",
        "done.wait(timeout=5)",
        "results.get(timeout=5)",
        "results.get(True, 5)",
        "future.result(5)",
        "future.exception(timeout=5)",
        "concurrent.futures.wait([future], 5, concurrent.futures.ALL_COMPLETED)",
        "list(concurrent.futures.as_completed([future], timeout=5))",
        "list(pool.map(run, [1], timeout=5))",
    ],
)
def test_a_wait_that_can_give_up_is_no_order(own_program: Program, wait: str) -> None:
    text = f"""
        import concurrent.futures, queue, threading
        done, results = threading.Event(), queue.Queue()
        future, pool = concurrent.futures.Future(), concurrent.futures.ThreadPoolExecutor(1)
        def run(value=None):
            import plain
            done.set()
            results.put(1)
            if not future.done():
                future.set_result(1)
        thread = threading.Thread(target=run)
        if "pool" not in {wait!r}:
            thread.start()
        {wait}
        import plain
    """
    assert own_program.run(text).stderr == ""
    ((_, loader, *_),) = own_program.of("end", "plain")
    assert not [
        record
        for record in own_program.records
        if record[1:3] == ("order", 0) and loader in record[3]
    ]


def test_a_queue_that_was_empty_is_no_order(own_program: Program) -> None:
    """What other threads have put and taken says nothing to the one that gets nothing."""
    text = """
        import queue, threading
        taken, results = threading.Event(), queue.Queue()
        def run():
            import plain
            results.put(1)
            results.get()
            taken.set()
        threading.Thread(target=run).start()
        while not getattr(taken, "_flag"): pass
        try:
            results.get_nowait()
        except queue.Empty:
            import plain
    """
    assert own_program.run(text).stderr == ""
    assert known_before_main_asks(own_program)[1] == 0


def test_no_order_is_told_where_there_is_none(program: Program) -> None:
    program.run(
        AT_ONCE.replace("import lazy", "import plain")
        .replace('"lazy" not in', '"plain" not in')
        .replace("from lazy", "from plain")
        .replace("import thing", "import value")
    )
    assert not [
        record for record in program.records if record[1:3] == ("order", 0) and 1 in record[3]
    ]


def test_children_are_followed_and_those_that_escape_are_named(program: Program) -> None:
    text = """
        import os, subprocess, sys
        import plain
        if not os.fork():
            import lazy
            os._exit(0)
        os.wait()
        subprocess.run([sys.executable, "-c", "import one"])
        subprocess.run([sys.executable, "-I", "-c", "pass"])
        subprocess.run([sys.executable, "-c", "pass"], env={})
        subprocess.run(sys.executable + " -sE -c pass", shell=True)
    """
    ran = program.run(text)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert len({record[0] for record in program.records}) == 3
    assert [record[3]["forked"] for record in program.of("process")].count(True) == 1
    assert program.of("end", "lazy")
    assert program.of("end", "one")
    assert [record[3] for record in program.of("escape")] == ["-I", "clean environment", "-E"]


def test_children_that_escape_by_the_environment_of_the_program_itself_are_named(
    program: Program,
) -> None:
    text = """
        import os, subprocess, sys
        os.system(sys.executable + " -I -c pass")
        subprocess.run(["env", "-i", sys.executable, "-c", "pass"])
        subprocess.run([sys.executable, "-c", "pass"], env=dict(os.environ, PYTHONPATH="src"))
        subprocess.run([sys.executable, "-c", "import one"], env=dict(os.environ, PYTHONPATH="src:" + os.environ["PYTHONPATH"]))
        os.environ.clear()
        subprocess.run([sys.executable, "-c", "1"])
        import multiprocessing
        process = multiprocessing.get_context("spawn").Process()
        process.start()
        process.join()
    """
    ran = program.run(text)
    assert ran.returncode == 0
    assert program.of("end", "one")
    whys = [record[3] for record in program.of("escape")]
    assert whys[:4] == ["-I", "clean environment", "PYTHONPATH of its own", "clean environment"]
    assert len(whys) > 4, "what multiprocessing starts is told too"
    assert set(whys[4:]) == {"clean environment"}


def test_a_from_list_may_be_a_list(program: Program) -> None:
    text = """
        import threading
        threading.Thread(target=int).start()
        __import__("lazy", globals(), locals(), ["thing"], 0)
    """
    assert program.run(text).returncode == 0
    assert [(record[4], record[8]) for record in program.of("ask", "lazy")] == [
        ("statement", ("thing",))
    ]


def test_the_loader_of_a_program_is_held_as_any_other(program: Program) -> None:
    text = """
        import importlib.abc, importlib.machinery, sys, threading, time, types

        class Own(importlib.abc.MetaPathFinder, importlib.abc.Loader):
            def find_spec(self, name, path=None, target=None):
                return importlib.machinery.ModuleSpec(name, self) if name == "made" else None

            def exec_module(self, module):
                assert module.__spec__.loader is module.__loader__ is self
                sys.modules["made"] = types.ModuleType("made")
                sys.modules["made"].thing = 1

        sys.meta_path.append(Own())
        threading.Thread(target=__import__, args=("made",)).start()
        while "made" not in sys.modules:
            time.sleep(0.001)
        from made import thing
    """
    assert "cannot import name 'thing'" in program.run(text, hold="exec made - 20").stderr


def test_a_program_that_closes_every_descriptor_loses_nothing(program: Program) -> None:
    text = """
        import os
        import plain
        os.closerange(3, 256)
        mine = os.open("mine", os.O_CREAT | os.O_WRONLY)
        import lazy
        os.write(mine, b"mine")
    """
    assert program.run(text).returncode == 0
    assert (program.folder / "mine").read_text() == "mine"
    assert program.of("end", "lazy")


def test_a_program_that_is_killed_leaves_what_was_imported(program: Program) -> None:
    program.run("import os, plain\nos.kill(os.getpid(), 9)")
    assert program.of("end", "plain")
    assert not program.of("exit")


@pytest.mark.parametrize(
    "text",
    [
        "import broken",
        "from plain import missing",
        "import no_such_module",
        "import warns",
        "import threading\nthread = threading.Thread(target=lambda: 1 / 0, name='t')\nthread.start()\nthread.join()",
    ],
)
def test_errors_and_warnings_read_as_without_it(program: Program, text: str) -> None:
    program.write(
        {
            "broken.py": "import plain\n1 / 0",
            "warns.py": "import warnings\nwarnings.warn('old', stacklevel=2)",
        }
    )
    threaded = (
        "import threading\nstarted = threading.Thread(target=print)\nstarted.start()\nstarted.join()\n"
        + text
    )
    for source in (text, threaded):
        without = program.run(source, recorded=False)
        ran = program.run(source)
        assert (ran.returncode, ran.stdout, _frames(ran.stderr)) == (
            without.returncode,
            without.stdout,
            _frames(without.stderr),
        )


def _frames(text: str) -> list[str]:
    """Without the frame of the import statement's stand-in, and lines that mark columns."""
    lines = [line for line in text.splitlines() if "<frozen importlib._bootstrap>" not in line]
    return [line for line in lines if line.strip(" ^~")]


def test_what_the_recorder_cannot_write_does_no_harm(program: Program) -> None:
    environ = recording({"PATH": "/usr/bin:/bin"}, program.folder / "no" / "such")
    ran = subprocess.run(
        [program.python, "-c", "import json, threading; threading.Thread(target=print).start(); import plain"],
        env=environ, cwd=program.folder, capture_output=True, text=True, check=False, timeout=180,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "\n", "")


def test_what_a_loader_of_the_old_kind_loads_is_recorded(program: Program) -> None:
    # zipimport of Python 3.8 and 3.9 is one.
    text = """
        import sys, zipfile
        with zipfile.ZipFile("all.zip", "w") as file:
            file.write("lazy.py", "zipped.py")
            file.writestr("broken.py", "1 / 0")
        sys.path.insert(0, "all.zip")
        import zipped
        try:
            import broken
        except ZeroDivisionError:
            pass
    """
    assert program.run(text).stderr == ""
    ends = {record[3]: record[4:] for record in program.of("end")}
    assert (ends["zipped"], ends["broken"]) == (("loaded", True), ("failed", False))
