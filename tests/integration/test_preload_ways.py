# SPDX-License-Identifier: Apache-2.0
"""Preload shims under the many ways in which a program can be started, split up, and import things, in real interpreters."""

import zipfile
from pathlib import Path

import pytest

from tests.integration.preload_venvs import PACKAGES, Venv, each_interpreter, interpreters, venv_of

pytestmark = pytest.mark.integration

# `serve` says whether its preload came first, and on which thread; `needed` counts how often it was executed.
MODULES = {
    "needed.py": "import builtins\nbuiltins.times = getattr(builtins, 'times', 0) + 1\n",
    "serve.py": "import sys\npreloaded = 'needed' in sys.modules\n",
    "chained/__init__.py": "order = []\n",
    "chained/first.py": "import chained; chained.order.append('first')\n",
    "chained/second.py": "import chained; chained.order.append('second')\n",
    "chained/third.py": "import chained; chained.order.append('third')\n",
    "round_a.py": "import builtins; print('a')\n",
    "round_b.py": "import builtins; print('b')\n",
    # As torch without its CUDA library: the second import says something else than the first.
    "broken.py": "import builtins\nif hasattr(builtins, 'tried'): raise ImportError('partially initialized')\n"
    "builtins.tried = True\nraise OSError('libcuda.so.1 is missing')\n",
    "needs_broken.py": "try:\n    import broken\nexcept OSError as error:\n    raise RuntimeError('broken cannot be had') from error\n",
    "asks.py": "",
    "twice.py": "import os\nif os.environ.pop('FAILS', None): raise ValueError('not yet')\n",
    **{f"many_{number}.py": f"import many_needed_{number % 4}\n" for number in range(16)},
    **{
        f"many_needed_{number}.py": "import sys, types\nname = __name__\nsys.modules[name] = lazy = types.ModuleType(name)\n"
        "lazy.here, lazy.__spec__ = 1, __spec__\nimport many_count; many_count.names.append(name)\n"
        for number in range(4)
    },
    "many_count.py": "names = []\n",
    "sub_program.py": "import serve, sys; assert serve.preloaded; assert '_ci_doctor_preload_rt' in sys.modules\n",
}
RULES = (
    "serve=needed",
    "chained.first=chained.second",
    "chained.second=chained.third",
    "round_a=round_b",
    "round_b=round_a",
    "asks=needs_broken",
    "twice=needed",
    "from_outside=outside:value",
    "app.main=needed",
    "app.other=json",
    *(f"many_{number}=many_needed_{number % 4}:here" for number in range(16)),
)
ONLY = "import sys; rules = sys.modules['_ci_doctor_preload'].RULES; [rules.pop(name) for name in list(rules) if name not in sys.argv[1:]]\n"
ARMED = "sys.modules['_ci_doctor_preload'] in sys.meta_path"
CHILDREN = """
import multiprocessing, sys

def serve(_):
    import serve
    return serve.preloaded

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    if sys.argv[2:]:
        context.set_forkserver_preload(sys.argv[2:])
    with context.Pool(2) as pool:
        print(all(pool.map(serve, range(4))))
"""


@pytest.fixture(scope="module", params=each_interpreter())
def venv(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Venv:
    made = venv_of(request.param, tmp_path_factory.mktemp("venv"))
    made.put(MODULES)
    made.put_shim(*RULES)
    (made.directory / "children.py").write_text(CHILDREN)
    return made


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Venv:
    made = Venv(interpreters()["own"], tmp_path_factory.mktemp("venv") / "v")
    made.put({**MODULES, **PACKAGES})
    made.put_shim("serve=needed", "fakeserve.cli=fakeformers:GenerationConfig")
    return made


def said(venv: Venv, *arguments: str, **environment: str) -> list[str]:
    """What the run said on stdout; it must have gone well and said nothing else."""
    ran = venv.run(*arguments, timeout_s=60, **environment)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.splitlines()


def test_finder_leaves_by_a_new_list_once_the_last_rule_is_done(venv: Venv) -> None:
    # A thread that goes through the list while the finder leaves must not miss one that comes after it.
    script = (
        f"{ONLY}before = sys.meta_path; copy = before[:]; import serve\n"
        "print(serve.preloaded, before == copy, before is not sys.meta_path, [f for f in copy if f not in sys.meta_path])"
    )
    (line,) = said(venv, "-c", script, "serve")
    assert line.startswith("True True True [<module '_ci_doctor_preload' from")
    assert "," not in line


OWN_LIST = f"""{ONLY}
Finders = type("Finders", (list,), {{}})
sys.meta_path = mine = Finders(sys.meta_path)
import serve; print(sys.meta_path is mine, serve.preloaded)
"""
AS_PROGRAM = """
import runpy, sys
runpy.run_module(sys.argv[1], run_name="__main__", alter_sys=True)
print("needed" in sys.modules)
"""
RETELLING = f"""{ONLY}
import asks
for name in ("broken", "needs_broken", "needs_broken"):
    print({ARMED})
    try:
        __import__(name)
    except BaseException as error:
        print(repr(error))
print({ARMED})
"""
READING = """
import importlib.util
loader = importlib.util.find_spec("serve").loader
print(type(loader).__name__, loader.is_package("serve"), loader.get_data(loader.path)[:10], loader.get_source("serve")[:10])
print(loader.get_code("serve").co_filename == loader.get_filename("serve"))
import sys; print("needed" in sys.modules)
"""
FORKING = """
import os, sys
child = os.fork()
import serve
print(serve.preloaded, flush=True)
if child:
    os.waitpid(child, 0)
"""
WAYS = {
    "the finder stays while another rule waits": (
        (
            "-c",
            f"{ONLY}import serve; print({ARMED}); import twice; print({ARMED})",
            "serve",
            "twice",
        ),
        ["True", "False"],
    ),
    "the finder stays in a list of a kind that is not Python's own": (
        (
            "-c",
            OWN_LIST,
            "serve",
        ),
        ["True True"],
    ),
    "the finder stays until every failure is retold, each by its own module": (
        ("-c", RETELLING, "asks"),
        [
            "True",
            "OSError('libcuda.so.1 is missing')",
            "True",
            "RuntimeError('broken cannot be had')",
            "False",
            "ImportError('partially initialized')",
            "False",
        ],
    ),
    "rules that lead to one another are done in turn": (
        ("-c", "import chained.first; print(chained.order)"),
        ["['third', 'second', 'first']"],
    ),
    "rules that go in a circle execute each module once": (
        ("-c", "import round_a, round_b, sys; print(round_a is sys.modules['round_a'])"),
        ["a", "b", "True"],
    ),
    "a reloaded trigger is executed again and preloads nothing more": (
        (
            "-c",
            "import importlib, serve; serve.preloaded = None; print(importlib.reload(serve).preloaded, times)",
        ),
        ["True 1"],
    ),
    "the loader of a trigger reads data as ever": (
        ("-c", READING),
        ["SourceFileLoader False b'import sys' import sys", "True", "False"],
    ),
    "a child forked while armed preloads by itself": (("-c", FORKING), ["True", "True"]),
    "without site nothing is armed and nothing said": (
        ("-S", "-c", "import sys; print(any('ci_doctor' in name for name in sys.modules))"),
        ["False"],
    ),
    "a program is run by another one": (
        ("-c", "import runpy; print(runpy.run_path('children.py')['serve'](0))"),
        ["True"],
    ),
    "a module is run by another program": (
        (
            "-c",
            AS_PROGRAM,
            "serve",
        ),
        ["True"],
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_shim_is_armed_and_goes_as_it_should(way: str, venv: Venv) -> None:
    arguments, wanted = WAYS[way]

    assert said(venv, *arguments) == wanted


def test_trigger_that_fails_and_is_asked_for_again_is_imported(venv: Venv) -> None:
    script = "import sys\ntry: import twice\nexcept ValueError: print('needed' in sys.modules)\nimport twice; print(times)"
    assert said(venv, "-c", script, FAILS="1") == ["True", "1"]


def test_many_threads_that_import_triggers_at_once_preload_each_module_once(venv: Venv) -> None:
    script = f"""{ONLY}
import threading
barrier, errors = threading.Barrier(32), []

def ask(number):
    barrier.wait()
    try:
        __import__("many_%d" % (number % 16))
        __import__("json.tool")
    except BaseException as error:
        errors.append(error)

threads = [threading.Thread(target=ask, args=(number,)) for number in range(32)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
import many_count
print(errors, sorted(many_count.names), {ARMED})
"""
    names = [f"many_{number}" for number in range(16)]
    wanted = f"[] {[f'many_needed_{number}' for number in range(4)]} False"
    assert [said(venv, "-c", script, *names) for _ in range(2)] == [[wanted]] * 2


def test_preload_finds_what_the_job_has_put_on_its_path(venv: Venv, tmp_path: Path) -> None:
    for name, text in {
        "outside.py": "value = 1",
        "from_outside.py": "",
        "start.py": "import from_outside, sys; print('outside' in sys.modules)",
    }.items():
        (tmp_path / name).write_text(text)
    assert said(venv, str(tmp_path / "start.py")) == ["True"], "the directory of the script"
    assert said(venv, "-c", "import start", PYTHONPATH=str(tmp_path)) == ["True"], "PYTHONPATH"
    assert said(venv, "-c", f"import sys; sys.path.append({str(tmp_path)!r}); import start") == [
        "True"
    ], "set by the program"


@pytest.mark.parametrize("way", ["app.pyz", "path", "two triggers"])
def test_trigger_within_a_zipapp(venv: Venv, way: str, tmp_path: Path) -> None:
    left = "sorted(set(vars(app.main.__loader__)) & {'create_module', 'load_module'})"
    start = f"import sys, app.main\nprint('needed' in sys.modules, {left})"
    with zipfile.ZipFile(tmp_path / "app.pyz", "w") as archive:
        archive.writestr("__main__.py", start)
        archive.writestr("start.py", start)
        archive.writestr("app/__init__.py", "")
        archive.writestr("app/main.py", "")
        archive.writestr("app/other.py", "import sys; print('json' in sys.modules)")
    put = f"import sys; sys.path.insert(0, {str(tmp_path / 'app.pyz')!r}); "
    both = (
        put
        + "from importlib.util import find_spec; find_spec('app.other'), find_spec('app.main'); "
        + f"import start, app.other, app.main; print({left})"
    )
    arguments = {
        "app.pyz": (str(tmp_path / "app.pyz"),),
        "path": ("-c", put + "import start"),
        "two triggers": ("-c", both),
    }
    wanted = {"two triggers": ["True ['create_module']", "True", "[]"]}.get(way, ["True []"])
    if "load_module" in (seen := said(venv, *arguments[way]))[0]:  # before 3.10
        wanted[0] = wanted[0].replace("create_module", "load_module")
    assert seen == wanted


@pytest.mark.parametrize(
    "way",
    [("fork",), ("spawn",), ("forkserver",), ("forkserver", "serve"), ("forkserver", "needed")],
    ids=" ".join,
)
@pytest.mark.gate(12)
def test_pools_of_processes_preload(venv: Venv, way: tuple[str, ...]) -> None:
    assert said(venv, "children.py", *way) == ["True"]


@pytest.mark.parametrize("way", ["serve", "sub_program"])
def test_sub_interpreter_preloads_for_itself(venv: Venv, way: str) -> None:
    script = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
if "main" in sys.argv: import serve
number = interpreters.create()
print(interpreters.run_string(number, "import sub_program"))
import sys; print("sub_program" in sys.modules)
"""
    assert said(venv, "-c", script, *(["main"] if way == "serve" else [])) == ["None", "False"]


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "2")], ids=["one process", "xdist"])
@pytest.mark.gate(1)
def test_pytest_runs_that_import_the_trigger(
    own: Venv, workers: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "conftest.py").write_text("")
    for number in range(3):
        text = "def test_it():\n    import fakeserve.cli, serve\n    assert serve.preloaded\n"
        (tmp_path / f"test_{number}.py").write_text(text)
    libraries = str(Path(pytest.__file__).parents[1])
    environment = {
        "PYTHONPATH": libraries,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DEBUG_TEMPROOT": str(tmp_path),
    }
    words = ("-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", *workers, str(tmp_path))
    ran = own.run(*words, timeout_s=60, **environment)
    assert (ran.returncode, "3 passed" in ran.stdout) == (0, True), ran.stdout
    without = own.run(*words, timeout_s=60, CI_DOCTOR_PRELOAD="0", **environment)
    assert without.returncode == 1
    assert "cannot import name 'GenerationConfig'" in without.stdout
