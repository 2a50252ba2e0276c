# SPDX-License-Identifier: Apache-2.0
"""Installing preload shims into real interpreters and taking them out again."""

import os
import shutil
import signal
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ci_doctor.errors import InfraError, PreparationError, UsageError
from ci_doctor.machine.interpreters import ask
from ci_doctor.model.facts.diagnose import FileState
from ci_doctor.preload import trial
from ci_doctor.preload.install import (
    Installation,
    install_each,
    install_shims,
)
from ci_doctor.preload.interpreter import Refused, inspect_interpreter
from ci_doctor.preload.preload_rule import format_rule, parse_rule
from ci_doctor.preload.start_files import FINDER, PATH_FILE, RUNTIME
from tests.integration.preload_venvs import (
    Venv,
    each_interpreter,
    interpreters,
    pyenv_python,
    remove_shims,
    skip_without,
    venv_of,
)
from tests.integration.preload_venvs import shim_of as status

pytestmark = pytest.mark.integration

RULE = parse_rule("serve=json:dumps")
CACHE_TAG = sys.implementation.cache_tag
OTHER_RULE = parse_rule("serve=json:loads")


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    return Venv(interpreters()["own"], tmp_path / "v")


@pytest.mark.parametrize("name", each_interpreter())
def test_removal_leaves_the_site_directory_as_it_was(name: str, tmp_path: Path) -> None:
    venv = venv_of(name, tmp_path)
    venv.put({"serve.py": "", "theirs.pth": "# a comment\n"})
    before = venv.files()
    install_shims([venv.python], [RULE], dry_run=False)
    assert status(venv.python).installed
    install_shims([venv.python], [OTHER_RULE], dry_run=False)
    assert status(venv.python).rules == ("serve=json:dumps,loads",)
    venv.run("-O", "-c", "import _ci_doctor_preload_rt")  # leaves bytecode of another kind
    remove_shims([venv.python], dry_run=False)
    assert venv.files() == before
    assert venv.run("-c", "pass").stderr == ""


def test_second_installation_changes_nothing_and_an_interpreter_is_one_target(venv: Venv) -> None:
    (none,) = remove_shims([venv.python], dry_run=False)
    same = [venv.python, venv.directory, venv.directory / "bin" / "python3"]
    results = install_shims(same, [RULE], dry_run=False)
    before = {path: path.stat().st_mtime_ns for path in venv.site_dir.rglob("*")}
    (result,) = install_shims([venv.python], [RULE], dry_run=False)

    assert none.change.actions == ()
    assert [each.target.python for each in results] == [venv.python]
    assert {action.state for action in result.change.actions} == {FileState.UNCHANGED}
    assert {path: path.stat().st_mtime_ns for path in venv.site_dir.rglob("*")} == before
    # The files are readable by all, and compiled.
    modes = {stat.S_IMODE((venv.site_dir / name).stat().st_mode) for name in (FINDER, PATH_FILE)}
    assert modes == {0o644}
    compiled = {path.name.partition(".")[0] for path in (venv.site_dir / "__pycache__").iterdir()}
    assert compiled == {"_ci_doctor_preload", "_ci_doctor_preload_rt"}


def test_installations_at_the_same_time_lose_no_rule(venv: Venv) -> None:
    rules = [parse_rule(f"serve{number}=json:dumps") for number in range(4)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda rule: install_shims([venv.python], [rule], dry_run=False), rules))
    assert set(status(venv.python).rules) == set(map(format_rule, rules))


def test_a_directory_that_may_not_be_written_is_refused_also_for_root(venv: Venv) -> None:
    venv.site_dir.chmod(0o555)
    with pytest.raises(UsageError, match="cannot write in"):
        install_shims([venv.python], [RULE], dry_run=False)


def test_shim_with_which_an_interpreter_does_not_start_is_removed_again(venv: Venv) -> None:
    venv.put({"theirs.pth": "import sys; '_ci_doctor_preload' in sys.modules and sys.exit(3)\n"})
    before = venv.files()
    with pytest.raises(PreparationError) as caught:
        install_shims([venv.python], [RULE], dry_run=False)
    assert [finding.rule for finding in caught.value.findings] == ["preload/breaks-start"]
    assert venv.files() == before


def test_interpreter_that_complained_before_may_go_on_complaining(venv: Venv) -> None:
    venv.put({"theirs.pth": "import no_such_module\n"})
    install_shims([venv.python], [RULE], dry_run=False)
    assert status(venv.python).installed


@pytest.mark.parametrize(
    ("module", "rule", "timeout_s"),
    [
        pytest.param(
            "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
            "preload/crashes",
            60,
            id="signal",
        ),
        pytest.param("import os; os._exit(0)", "preload/crashes", 60, id="os-exit"),
        pytest.param("import threading; threading.Event().wait()", "preload/hangs", 0.5, id="hang"),
    ],
)
def test_module_that_would_end_or_hang_every_process_is_refused(
    venv: Venv, module: str, rule: str, timeout_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "TRIAL_TIMEOUT_S", timeout_s)
    venv.put({"deadly.py": module})
    before = venv.files()
    with pytest.raises(PreparationError) as caught:
        install_shims([venv.python], [parse_rule("serve=deadly")], dry_run=False)
    assert [finding.rule for finding in caught.value.findings] == [rule]
    assert venv.files() == before


def test_modules_that_end_the_process_only_together_are_refused_too(venv: Venv) -> None:
    venv.put({"first.py": "", "second.py": "import os, sys; 'first' in sys.modules and os.abort()"})
    before = venv.files()
    with pytest.raises(PreparationError, match="first, second"):
        install_shims([venv.python], [parse_rule("serve=first;second")], dry_run=False)
    assert venv.files() == before


@pytest.mark.parametrize(
    ("source", "said"),
    [
        # surrogateescape: a file name that is not UTF-8
        ("raise OSError('no file caf\\udce9')", "OSError: no file caf?"),
        ("import sys; sys.stderr.close(); raise OSError('quiet')", "OSError: quiet"),
        ("import os, sys; print('hello'); os.write(1, b'{}'); sys.stderr.write('warning')", None),
    ],
    ids=["odd text", "no stderr", "it talks"],
)
def test_module_that_raises_odd_things_is_a_warning_and_one_that_talks_is_none(
    venv: Venv, source: str, said: str | None
) -> None:
    venv.put({"odd.py": source})
    (done,) = install_shims([venv.python], [parse_rule("server=odd")], dry_run=False)
    assert [each.rule for each in done.findings] == ["preload/fails-now"] * (said is not None)
    assert said is None or said in done.findings[0].summary


@pytest.mark.parametrize(
    "program",
    [
        "#!/bin/sh\necho no python >&2\nexit 2\n",
        "#!/bin/sh\n",
        "not a program",
        "#!/bin/sh\necho '[1]'\n",
    ],
)
def test_program_that_is_no_python_is_refused(tmp_path: Path, program: str) -> None:
    path = tmp_path / "python"
    path.write_text(program)
    path.chmod(0o755)
    with pytest.raises(UsageError) as caught:
        status(path)
    assert str(path) in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("version", ["2.7.18", "3.7.16"])
def test_python_older_than_3_8_is_refused(version: str) -> None:
    python = pyenv_python(version)
    skip_without(python)
    with pytest.raises(UsageError, match=r"3\.8"):
        status(python)


def test_interpreter_of_the_operating_system_is_refused(tmp_path: Path) -> None:
    python = interpreters()["system"]
    skip_without(python)
    if not inspect_interpreter(python).externally_managed:
        pytest.skip(f"{python} is not externally managed")
    with pytest.raises(UsageError, match="PEP 668"):
        install_shims([python], [RULE], dry_run=True)
    assert not inspect_interpreter(Venv(python, tmp_path / "v").python).externally_managed


def test_time_limit_ends_the_grandchildren_too_and_an_exit_by_signal_is_told(
    tmp_path: Path,
) -> None:
    killed = ask(Path("/bin/sh"), "-c", "kill -TERM $$", timeout_s=20, environment={})
    assert killed.exit_code == -signal.SIGTERM
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    # The grandchild holds the other end of the fifo open for as long as it lives.
    script = f"exec 3>{fifo}; sh -c 'echo $$ >&3; exec sleep 1000' & wait"
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(reader, "rb") as pipe:
        answer = ask(Path("/bin/sh"), "-c", script, timeout_s=1.0, environment=os.environ)
        assert answer.exit_code is None
        os.set_blocking(reader, True)
        assert pipe.read().strip().isdigit(), (
            "the end of the file comes when the last writer is gone"
        )


def test_interpreter_that_does_not_answer_is_infra(tmp_path: Path) -> None:
    path = tmp_path / "python"
    path.write_text("#!/bin/sh\nexec sleep 1000\n")
    path.chmod(0o755)
    with pytest.raises(InfraError, match="did not answer"):
        inspect_interpreter(path, timeout_s=0.2)


def test_target_that_fails_last_is_left_without_and_the_others_are_said(
    venv: Venv, tmp_path: Path
) -> None:
    other = Venv(interpreters()["own"], tmp_path / "other")
    third = Venv(interpreters()["own"], tmp_path / "third")
    other.put({"theirs.pth": "import sys; '_ci_doctor_preload' in sys.modules and sys.exit(3)\n"})
    before = other.files(), third.files()
    results = install_each([venv.python, other.python, third.python], [RULE], dry_run=False)
    first, second, last = results
    assert isinstance(first, Installation)
    assert isinstance(second, Refused)
    assert isinstance(last, Installation)
    assert (first.change.state, last.change.state) == ("changed", "held back")
    assert status(venv.python).installed
    assert (other.files(), third.files()) == before


def test_what_killed_writes_left_is_cleared_and_nothing_else(venv: Venv) -> None:
    before = venv.files()
    install_shims([venv.python], [RULE], dry_run=False)
    ours = [f".{PATH_FILE}.abc_1234", f"__pycache__/{FINDER[:-3]}.cpython-311.pyc.140234"]
    theirs = [
        f".{PATH_FILE}.bak",
        f"{PATH_FILE}.orig",
        f"__pycache__/{FINDER[:-3]}x.cpython-311.pyc",
    ]
    venv.put(dict.fromkeys([*ours, *theirs], "half"))
    assert len(status(venv.python).cut_off) == 2
    install_shims([venv.python], [RULE], dry_run=False)
    assert status(venv.python).cut_off == ()
    venv.put(dict.fromkeys(ours, "half"))
    remove_shims([venv.python], dry_run=False)
    assert set(venv.files()) - set(before) == {*theirs, "__pycache__"}


@pytest.mark.parametrize("module", [FINDER, RUNTIME])
def test_half_written_bytecode_is_made_again(venv: Venv, module: str) -> None:
    install_shims([venv.python], [RULE], dry_run=False)
    (compiled,) = venv.site_dir.glob(f"__pycache__/{Path(module).stem}.*")
    compiled.write_bytes(compiled.read_bytes()[:100])
    install_shims([venv.python], [RULE], dry_run=False)
    ran = venv.run("-W", "error", "-c", "import _ci_doctor_preload, _ci_doctor_preload_rt")
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("there", [None, "others", "link"])
def test_directory_for_bytecode_that_was_there_stays(
    venv: Venv, tmp_path: Path, there: str | None
) -> None:
    cache = venv.site_dir / "__pycache__"
    if there == "others":
        venv.put({"__pycache__/theirs.cpython-38.pyc": ""})
    elif there == "link":
        (tmp_path / "elsewhere").mkdir()
        cache.symlink_to(tmp_path / "elsewhere")
    before = venv.files()
    install_shims([venv.python], [RULE], dry_run=False)
    install_shims([venv.python], [OTHER_RULE], dry_run=False)
    assert status(venv.python).installed
    remove_shims([venv.python], dry_run=False)
    assert venv.files() == before
    assert there != "link" or not list((tmp_path / "elsewhere").iterdir())


def test_bytecode_of_others_is_neither_made_nor_taken(venv: Venv) -> None:
    venv.put({"theirs.py": "", "theirs.pth": "import theirs\n"})
    before = venv.files()
    install_shims([venv.python], [RULE], dry_run=False)
    venv.run("-c", "pass")
    remove_shims([venv.python], dry_run=False)
    assert set(venv.files()) - set(before) == {"__pycache__", f"__pycache__/theirs.{CACHE_TAG}.pyc"}


def test_site_directory_that_is_a_link_is_fine_and_moved_environments_too(
    venv: Venv, tmp_path: Path
) -> None:
    shutil.move(venv.site_dir, tmp_path / "elsewhere")
    venv.site_dir.symlink_to(tmp_path / "elsewhere")
    install_shims([venv.python], [RULE], dry_run=False)
    moved = tmp_path / "moved"
    shutil.move(venv.directory, moved)
    assert status(moved / "bin" / "python").installed
    remove_shims([moved], dry_run=False)
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("name", each_interpreter())
def test_rule_that_cannot_fire_is_refused_with_its_reason(name: str, tmp_path: Path) -> None:
    venv = venv_of(name, tmp_path)
    venv.put({"early.py": "", "a.pth": "import early\n", "folder/inner/x.py": ""})
    before = venv.files()
    for trigger, reason in {
        "os": "loads it before the shim",
        "sys": "each start of this interpreter loads it",
        "zipimport": "each start of this interpreter loads it|frozen",
        "early": "loads it before the shim",
        "_sre": "built into",
        "folder": "namespace package",
        "folder.inner": "namespace package",
    }.items():
        with pytest.raises(UsageError, match=f"cannot fire.*{trigger}: .*({reason})"):
            install_shims([venv.python], [parse_rule(f"{trigger}=json")], dry_run=False)
    assert venv.files() == before


def test_modules_that_pytest_loads_are_refused_where_there_is_a_pytest(venv: Venv) -> None:
    triggers = ("conftest", "tests.conftest", "tests.test_it", "it_test")
    rules = [parse_rule(f"{trigger}=json") for trigger in triggers]
    install_shims([venv.python], rules, dry_run=True)
    venv.put({"pytest.py": ""})
    for rule in rules:
        with pytest.raises(UsageError, match="in front of the shim") as refused:
            install_shims([venv.python], [rule], dry_run=True)
        assert "conftest.py" in str(refused.value.hint)


def test_rules_that_can_fire_are_not_refused(venv: Venv) -> None:
    venv.put({"folder/real.py": ""})
    triggers = ("folder.real", "threading", "absent.module")
    rules = [parse_rule(f"{trigger}=json") for trigger in triggers]
    install_shims([venv.python], rules, dry_run=False)
    # And once more, with the shim there.
    install_shims([venv.python], rules, dry_run=False)
