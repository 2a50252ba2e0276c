# SPDX-License-Identifier: Apache-2.0
"""Preload shims in real interpreters: what an armed interpreter does when a trigger is imported."""

from pathlib import Path

import pytest

from ci_doctor.preload.install import Installation, install_shims
from ci_doctor.preload.preload_rule import parse_rule
from tests.integration.preload_venvs import PACKAGES, Venv, each_interpreter, interpreters, venv_of

pytestmark = pytest.mark.integration

SERVE_RULE = "fakeserve.cli=fakeformers:GenerationConfig"
SPAWNING_SCRIPT = """
import multiprocessing

def serve():
    from fakeserve.cli import main
    main()

if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=serve)
    child.start()
    child.join()
    raise SystemExit(child.exitcode)
"""
CONSOLE_SCRIPT = "import sys\nfrom fakeserve.cli import main\nsys.exit(main())\n"
WAYS_TO_START = {
    "-c": ("-c", "import fakeserve.cli; fakeserve.cli.main()"),
    "-m package": ("-m", "fakeserve"),
    "-m module": ("-m", "fakeserve.cli"),
    "-I": ("-I", "-m", "fakeserve"),
    "-E -s -O -B": ("-E", "-s", "-O", "-B", "-m", "fakeserve"),
    "-X dev -W error -bb -u -q": ("-X", "dev", "-W", "error", "-bb", "-u", "-q", "-m", "fakeserve"),
    "import_module": ("-c", "import importlib; importlib.import_module('fakeserve.cli').main()"),
    "run_module": ("-c", "import runpy; runpy.run_module('fakeserve.cli')['main']()"),
    "console script": ("console_script",),
    "spawned child": ("spawning_script.py",),
}


def arm(venv: Venv, *rules: str) -> Installation:
    (result,) = install_shims([venv.python], [parse_rule(text) for text in rules], dry_run=False)
    return result


@pytest.fixture(scope="module", params=each_interpreter())
def armed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Venv:
    venv = venv_of(request.param, tmp_path_factory.mktemp("venv"))
    # Armed before the packages are there.
    assert [finding.rule for finding in arm(venv, SERVE_RULE).findings] == ["preload/not-installed"]
    venv.put(PACKAGES)
    (venv.directory / "console_script").write_text(CONSOLE_SCRIPT)
    (venv.directory / "spawning_script.py").write_text(SPAWNING_SCRIPT)
    return venv


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    return Venv(interpreters()["own"], tmp_path / "v")


@pytest.mark.parametrize("way", WAYS_TO_START)
def test_race_is_lost_with_the_shim_off_and_won_with_it(armed: Venv, way: str) -> None:
    # With -X dev, a thread that ends while Python does may free memory by another allocator (gh-128679).
    off = armed.run(*WAYS_TO_START[way], PYTHONMALLOC="pymalloc", CI_DOCTOR_PRELOAD="0")
    if off.returncode == 0:  # some release of 3.13 looks again after waiting (gh-143650)
        assert (
            armed.run("-c", "import sys; print(sys.version_info >= (3, 13))").stdout.strip()
            == "True"
        )
    else:
        assert "cannot import name 'GenerationConfig'" in off.stderr
    on = armed.run(*WAYS_TO_START[way], PYTHONMALLOC="pymalloc")
    assert (on.returncode, on.stdout.strip(), on.stderr) == (0, "served GenerationConfig", "")


def test_spawned_children_of_a_module_run_with_m_preload_too(armed: Venv) -> None:
    ran = armed.run("-m", "fakeserve.cli", "spawn")
    assert (ran.stdout.splitlines(), ran.stderr) == (["served GenerationConfig", "child 0"], "")


def test_idle_start_loads_the_finder_only_and_arms_it_once(armed: Venv) -> None:
    ran = armed.run(
        "-c",
        "import sys; ours = sys.modules['_ci_doctor_preload'];"
        "print(sys.meta_path.count(ours), sorted(name for name in sys.modules if 'ci_doctor' in name))",
        CI_DOCTOR_PRELOAD_TRACE="1",
    )
    assert (ran.stdout.strip(), ran.stderr) == ("1 ['_ci_doctor_preload']", "")


def test_spec_found_before_the_import_still_makes_a_module_of_its_own(armed: Venv) -> None:
    ran = armed.run(
        "-c",
        "import importlib.util as util; spec = util.find_spec('fakeserve.cli'); import fakeserve.cli;"
        "print(util.module_from_spec(spec) is fakeserve.cli)",
    )
    assert (ran.stdout.strip(), ran.stderr) == ("False", "")


def test_loader_is_as_before_once_the_trigger_is_loaded(armed: Venv) -> None:
    ran = armed.run(
        "-c",
        "import fakeserve.cli as trigger; loader = trigger.__spec__.loader;"
        "print(type(loader).__name__, sorted(vars(loader)), loader is trigger.__loader__)",
    )
    assert ran.stdout.strip() == "SourceFileLoader ['name', 'path'] True"


@pytest.mark.parametrize("to_file", [False, True], ids=["stderr", "file"])
def test_trace_tells_what_was_done(armed: Venv, tmp_path: Path, to_file: bool) -> None:
    file = tmp_path / "trace"
    ran = armed.run("-m", "fakeserve", CI_DOCTOR_PRELOAD_TRACE=str(file) if to_file else "1")
    told = file.read_text() if to_file else ran.stderr
    assert "fakeserve.cli: preloaded fakeformers (GenerationConfig) in " in told
    assert ran.stderr == ("" if to_file else told)


def test_trace_that_cannot_be_written_is_left_out(armed: Venv, tmp_path: Path) -> None:
    ran = armed.run(
        "-m", "fakeserve", CI_DOCTOR_PRELOAD_TRACE=str(tmp_path), CI_DOCTOR_PRELOAD_TIMEOUT="soon"
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_an_extension_is_armed_as_a_trigger_and_loads(venv: Venv) -> None:
    arm(venv, "_multiprocessing=json")
    ran = venv.run("-c", "import _multiprocessing; print(_multiprocessing.__name__)")
    assert (ran.stdout.strip(), ran.stderr) == ("_multiprocessing", "")


@pytest.mark.parametrize("trigger", ["sys", "zipimport", "fakespace"])
def test_builtin_frozen_and_namespace_triggers_do_no_harm(venv: Venv, trigger: str) -> None:
    (venv.site_dir / "fakespace").mkdir()
    # Such a shim was armed by an earlier version, or for another interpreter.
    venv.put_shim(f"{trigger}=json")
    ran = venv.run("-c", f"import {trigger}; print({trigger}.__name__)")
    assert (ran.stdout.strip(), ran.stderr) == (trigger, "")


def test_lazily_loaded_trigger_preloads_when_its_module_is_made(venv: Venv) -> None:
    venv.put({"serve.py": "import sys; value = 'json' in sys.modules"})
    arm(venv, "serve=json")
    ran = venv.run(
        "-c",
        "import importlib.util as util; spec = util.find_spec('serve');"
        "spec.loader = util.LazyLoader(spec.loader); module = util.module_from_spec(spec);"
        "spec.loader.exec_module(module); print(module.value)",
    )
    assert (ran.stdout.strip(), ran.stderr) == ("True", "")


def test_preloaded_module_that_imports_the_trigger_executes_it_once(venv: Venv) -> None:
    venv.put(
        {
            "serve.py": "print('serve'); value = 1",
            "needs.py": "import serve; print('needs', serve.value)",
        }
    )
    arm(venv, "serve=needs")
    ran = venv.run(
        "-c", "import serve, sys, needs; print(serve is needs.serve is sys.modules['serve'])"
    )
    assert (ran.stdout.splitlines(), ran.stderr) == (["serve", "needs 1", "True"], "")


ERRORS = ["RuntimeError('no libcuda.so.1')", "SystemExit(3)", "SyntaxError('bad')", "BrokenText()"]


@pytest.mark.parametrize("first_error", ERRORS)
def test_failed_preload_leaves_the_program_alone_and_is_retold_by_the_real_import(
    venv: Venv, first_error: str
) -> None:
    broken = f"""
        import builtins
        class BrokenText(Exception):
            def __str__(self): raise ValueError
        if hasattr(builtins, "broken_once"):
            raise ImportError("partially initialized module")
        builtins.broken_once = True
        raise {first_error}
    """
    venv.put({"broken.py": broken, "serve.py": "import json"})
    assert [finding.rule for finding in arm(venv, "serve=broken;csv").findings] == [
        "preload/fails-now"
    ]
    script = """
import importlib.util, sys
import serve
print("alive", "csv" in sys.modules, importlib.util.find_spec("broken") is not None)
for _ in range(2):
    try:
        import broken
    except BaseException as error:
        print(type(error).__name__)
"""
    ran = venv.run("-c", script, CI_DOCTOR_PRELOAD_TRACE="1")
    assert ran.returncode == 0
    assert ran.stdout.splitlines() == [
        "alive True True",
        first_error.partition("(")[0],
        "ImportError",
    ]
    assert "failed to preload broken" in ran.stderr


def test_program_that_makes_the_real_import_possible_works_as_without_the_shim(venv: Venv) -> None:
    venv.put(
        {
            "needy.py": "import os; os.environ['SET_BY_SERVE']",
            "serve.py": "import os; os.environ['SET_BY_SERVE'] = '1'",
        }
    )
    arm(venv, "serve=needy")
    ran = venv.run("-c", "import serve, needy; print('works', sorted(vars(needy.__loader__)))")
    assert (ran.stdout.strip(), ran.stderr) == ("works ['name', 'path']", "")


def test_attribute_that_cannot_be_had_does_no_harm(venv: Venv) -> None:
    venv.put({"serve.py": "import json; print(json.__name__)"})
    assert [finding.rule for finding in arm(venv, "serve=json:Nothing").findings] == [
        "preload/fails-now"
    ]
    ran = venv.run("-c", "import serve")
    assert (ran.stdout.strip(), ran.stderr) == ("json", "")


def test_preload_that_takes_too_long_dumps_its_stack_and_goes_on(
    venv: Venv, tmp_path: Path
) -> None:
    slow = """
        import os, time
        deadline = time.monotonic() + 120
        while os.environ.get("DUMP") and "recent call" not in open(os.environ["DUMP"]).read() and time.monotonic() < deadline:
            time.sleep(0.01)
    """
    venv.put({"slow.py": slow, "serve.py": "print('served')"})
    arm(venv, "serve=slow")
    dump = tmp_path / "stderr"
    script = "import os, sys; os.dup2(os.open(os.environ['DUMP'], os.O_WRONLY | os.O_CREAT), 2); import serve"
    ran = venv.run("-c", script, DUMP=str(dump), CI_DOCTOR_PRELOAD_TIMEOUT="0.1")
    assert (ran.returncode, ran.stdout.strip()) == (0, "served"), dump.read_text()
    assert "slow.py" in dump.read_text()


def test_dump_of_a_preload_that_runs_python_does_not_end_the_process(
    venv: Venv, tmp_path: Path
) -> None:
    # faulthandler's own thread reads frames while they change, which ends some of such processes.
    busy = """
        import json, os
        def deep(n):
            return n if n < 2 else deep(n - 1) + deep(n - 2)
        while os.environ.get("DUMP") and os.path.getsize(os.environ["DUMP"]) == 0:
            deep(12)
            json.loads(json.dumps({"a": [1, 2, 3]}))
    """
    venv.put({"busy.py": busy, "serve.py": "print('served')"})
    arm(venv, "serve=busy")
    script = "import os, sys; os.dup2(os.open(os.environ['DUMP'], os.O_WRONLY | os.O_CREAT), 2); import serve"
    for number in range(4):
        dump = tmp_path / f"stderr-{number}"
        ran = venv.run("-c", script, DUMP=str(dump), CI_DOCTOR_PRELOAD_TIMEOUT="0.02")
        assert (ran.returncode, ran.stdout.strip()) == (0, "served"), dump.read_text()
        assert "busy.py" in dump.read_text()


def test_process_that_outlives_the_shim_still_imports_the_trigger(venv: Venv) -> None:
    venv.put({"serve.py": "print('served')"})
    arm(venv, "serve=json")
    script = "import os; os.unlink(os.environ['RUNTIME']); import serve"
    runtime = venv.site_dir / "_ci_doctor_preload_rt.py"
    (venv.site_dir / "__pycache__").rename(venv.directory / "bytecode")
    ran = venv.run("-c", script, RUNTIME=str(runtime))
    assert (ran.stdout.strip(), ran.stderr) == ("served", "")
