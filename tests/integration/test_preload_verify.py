# SPDX-License-Identifier: Apache-2.0
"""`preload verify` against real interpreters: races that are lost without the shim, and shims that do not work."""

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from ci_doctor.errors import UsageError
from ci_doctor.model.facts.preparing import CheckOutcome, FileCondition, ShimCheck
from ci_doctor.model.outcome import Verdict
from ci_doctor.preload.install import install_shims
from ci_doctor.preload.interpreter import inspect_interpreter
from ci_doctor.preload.preload_rule import parse_rule
from ci_doctor.preload.start_files import FINDER, PATH_FILE, RUNTIME, read_site
from ci_doctor.preload.trial import observe_start, self_replacement_race
from ci_doctor.preload.verify import judge_armed, judge_files, race_check, verdict_of, verify_shim
from tests.integration.preload_venvs import Venv, each_interpreter, interpreters, venv_of
from tests.support.cli import inside

pytestmark = pytest.mark.integration

LAZY = """
import sys, types
class Lazy(types.ModuleType):
    __path__ = __path__
    Config = 1
sys.modules[__name__] = Lazy(__name__)
"""
IN_FRONT = """
import sys
from importlib.machinery import PathFinder
class Finder:
    find_spec = staticmethod(lambda name, path=None, target=None: name == "server" and PathFinder.find_spec(name) or None)
sys.meta_path.insert(0, Finder)
"""
# The trigger and two of its packages are installed nowhere.
RULE = "server.entry.cli=lazy:Config"


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    return Venv(interpreters()["own"], tmp_path / "v")


def checked(venv: Venv, rule: str, *, runs: int = 2) -> dict[str, ShimCheck]:
    """The checks by the first word of their names, after installing `rule`."""
    install_shims([venv.python], [parse_rule(rule)], dry_run=False)
    return by_name(verify_shim(inspect_interpreter(venv.python), runs=runs))


def race_of(venv: Venv, rule: str) -> ShimCheck:
    """The check of the rule's first module alone."""
    install_shims([venv.python], [parse_rule(rule)], dry_run=False)
    return race_check(inspect_interpreter(venv.python), parse_rule(rule), 0, runs=2)


def by_name(checks: Sequence[ShimCheck]) -> dict[str, ShimCheck]:
    return {check.name.partition(" ")[0]: check for check in checks}


def outcomes(checks: dict[str, ShimCheck]) -> dict[str, str]:
    return {name: str(check.outcome) for name, check in checks.items()}


@pytest.mark.parametrize("name", each_interpreter())
def test_race_of_a_package_that_replaces_itself_is_lost_without_the_shim_only(
    name: str, tmp_path: Path
) -> None:
    venv = venv_of(name, tmp_path)
    venv.put({"lazy/__init__.py": LAZY})

    install_shims([venv.python], [parse_rule(RULE)], dry_run=False)
    before = venv.files()
    checks = by_name(verify_shim(inspect_interpreter(venv.python), runs=3))

    assert verdict_of([*checks.values()]) is Verdict.PASS
    assert set(outcomes(checks)) == {"files", "armed", "race"}
    if self_replacement_race(venv.python):
        assert set(outcomes(checks).values()) == {"passed"}
        assert "lost in 3 of 3 runs without the shim, in 0 of 3 with it" in checks["race"].sentence
        assert "cannot import name 'Config'" in checks["race"].evidence
    else:  # a release with the cure of gh-143650
        assert checks["race"].outcome is CheckOutcome.NOT_NEEDED
        assert "looks again" in checks["race"].sentence
    assert venv.files() == before


MAIN_ONLY = "import signal\nsignal.signal(signal.SIGUSR1, signal.SIG_DFL)"
PART = {"pack/__init__.py": "from pack.part import value", "pack/part.py": "import pack\nvalue = 1"}
BELOW = {
    "server/__init__.py": "real = 1",
    "server/lazy.py": LAZY.replace("__path__ = __path__", ""),
}


@pytest.mark.parametrize(
    ("files", "rule", "words"),
    [
        (BELOW, "server.cli.main=server.lazy:Config", "lost in 2 of 2"),
        ({"lazy/__init__.py": LAZY}, "server=lazy", "no longer the one in sys.modules"),
        (PART, "server=pack:value;pack.part:value", "while a thread imports"),
        (
            {"main_only.py": MAIN_ONLY},
            "server=main_only",
            "in the background thread: ValueError: signal only works in main thread",
        ),
    ],
    ids=["the trigger's own package", "no attributes", "a submodule", "the main thread only"],
)
def test_race_that_the_shim_wins_is_proven(
    venv: Venv, files: dict[str, str], rule: str, words: str
) -> None:
    venv.put(files)

    race = race_of(venv, rule)

    assert race.outcome is CheckOutcome.PASSED
    assert words in f"{race.sentence} {race.evidence}"


@pytest.mark.parametrize(
    ("rule", "race"),
    [
        ("server=json", "not-needed"),  # what the driver might use itself
        ("server=traceback;threading;tokenize;string", "not-needed"),
        ("server=os;time", "not-needed"),
        ("json=lazy:Config", "passed"),
        ("json.decoder=lazy:Config", "passed"),
    ],
)
@pytest.mark.gate(2)
def test_standard_library_is_judged_like_any_other(venv: Venv, rule: str, race: str) -> None:
    venv.put({"lazy/__init__.py": LAZY})

    checks = outcomes(checked(venv, rule, runs=1))

    assert checks == {"files": "passed", "armed": "passed", "race": race}


@pytest.mark.parametrize(
    ("files", "rule", "why"),
    [
        (
            {"plain.py": "value = 1"},
            "server=plain:value",
            "plain does not replace itself in sys.modules",
        ),
        ({"plain.py": "value = 1"}, "server=plain", "the rule names no attributes"),
        (
            {"lazy/__init__.py": f"Config = 1\n{LAZY}"},
            "server=lazy:Config",
            "found in what was there before",
        ),
        (
            {"lazy/__init__.py": LAZY},
            "lazy.cli=lazy:Config",
            "it is loaded already when lazy.cli runs",
        ),
    ],
    ids=["plain", "no-attributes", "not-missed", "parent-of-the-trigger"],
)
@pytest.mark.gate(1)
def test_race_that_cannot_be_lost_says_that_the_shim_can_go(
    venv: Venv, files: dict[str, str], rule: str, why: str
) -> None:
    venv.put(files)

    race = race_of(venv, rule)

    assert race.outcome is CheckOutcome.NOT_NEEDED
    assert why in race.sentence
    assert f"ci-doctor preload remove --python {venv.python}" in (race.remedy or "")
    assert verdict_of([race]) is Verdict.PASS


@pytest.mark.parametrize(
    ("files", "rule"),
    [({}, "preload/not-installed"), ({"lazy.py": "raise OSError('libcuda')"}, "preload/fails-now")],
    ids=["absent", "raises"],
)
def test_module_that_cannot_be_imported_proves_nothing(
    venv: Venv, files: dict[str, str], rule: str
) -> None:
    venv.put(files)

    checks = checked(venv, RULE)

    assert (checks["race"].outcome, checks["race"].rule) == (CheckOutcome.VOID, rule)
    assert verdict_of([*checks.values()]) is Verdict.VOID


def test_module_that_ends_the_interpreter_is_a_failure_of_the_armed_shim(venv: Venv) -> None:
    install_shims([venv.python], [parse_rule(RULE)], dry_run=False)
    venv.put({"lazy.py": "import os\nos.abort()"})

    race = by_name(verify_shim(inspect_interpreter(venv.python), runs=1))["race"]

    assert (race.outcome, race.rule) == (CheckOutcome.FAILED, "preload/crashes")


def test_trigger_that_every_start_loads_proves_nothing(venv: Venv) -> None:
    venv.put({"lazy/__init__.py": LAZY, "server.py": ""})
    rule = parse_rule("server=lazy:Config")
    install_shims([venv.python], [rule], dry_run=False)
    # Something later loads the trigger at each start, which `preload install` would refuse.
    venv.put({"a_first.pth": "import server\n"})
    with pytest.raises(UsageError, match="cannot fire"):
        install_shims([venv.python], [rule], dry_run=False)

    race = race_check(inspect_interpreter(venv.python), rule, 0, runs=2)

    assert race.outcome is CheckOutcome.VOID
    assert "before a program can import it" in race.sentence


def test_shim_that_does_not_preload_fails(venv: Venv) -> None:
    venv.put({"lazy/__init__.py": LAZY})
    install_shims([venv.python], [parse_rule(RULE)], dry_run=False)
    (venv.site_dir / RUNTIME).write_text("def spec_for(*arguments): return None\n")

    checks = by_name(verify_shim(inspect_interpreter(venv.python), runs=2))

    # Without a whole finder nobody knows the rules; the runtime alone was changed here.
    assert outcomes(checks) == {"files": "failed", "armed": "passed", "race": "failed"}
    assert (
        "with the shim 2 of 2 runs fail: ImportError: cannot import name 'Config'"
        in checks["race"].sentence
    )
    assert "Traceback" in checks["race"].evidence


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# nothing\n", "arms the shim 0 times"),
        (
            "import _ci_doctor_preload, sys; sys.meta_path.append(_ci_doctor_preload)\n",
            "times, not once",
        ),
        ("import _ci_doctor_preload, _ci_doctor_preload_rt\n", "already preloads"),
    ],
    ids=["disarmed", "twice", "runtime"],
)
def test_shim_that_is_not_armed_as_it_should_be_fails(venv: Venv, text: str, said: str) -> None:
    install_shims([venv.python], [parse_rule(RULE)], dry_run=False)
    (venv.site_dir / PATH_FILE).write_text(text)

    target = inspect_interpreter(venv.python)
    armed = judge_armed(
        target, observe_start(target), observe_start(target, "-I"), observe_start(target, "-S")
    )

    assert (armed.outcome, armed.rule) == (CheckOutcome.FAILED, "preload/not-armed")
    assert said in armed.sentence


def test_finder_in_front_that_serves_the_trigger_is_found(venv: Venv) -> None:
    venv.put({"lazy/__init__.py": LAZY, "server.py": "", "zz.py": IN_FRONT, "zz.pth": "import zz"})

    checks = checked(venv, "server=lazy:Config", runs=1)

    assert checks["race"].outcome is CheckOutcome.FAILED
    assert "a finder in front of the shim loads server" in checks["race"].sentence
    assert checks["armed"].outcome is CheckOutcome.PASSED


def test_rules_other_than_the_manifests_are_found(venv: Venv) -> None:
    install_shims([venv.python], [parse_rule(RULE)], dry_run=False)
    finder = venv.site_dir / FINDER
    finder.write_text(finder.read_text().replace("'lazy'", "'lazier'"))

    target = inspect_interpreter(venv.python)
    state = read_site(target.site_dir)
    as_written = msgspec.structs.replace(
        state, conditions=dict.fromkeys(state.conditions, FileCondition.OURS)
    )

    files = [judge_files(target, each, observe_start(target)) for each in (state, as_written)]

    assert [each.outcome for each in files] == [CheckOutcome.FAILED, CheckOutcome.FAILED]
    assert "_ci_doctor_preload.py is edited" in files[0].sentence
    assert "has armed are not those in" in files[1].sentence


def test_exit_code_is_0_where_it_is_proven_and_a_missing_interpreter_hides_no_other(
    venv: Venv,
) -> None:
    venv.put({"lazy/__init__.py": LAZY})
    install_shims([venv.python], [parse_rule(RULE)], dry_run=False)
    words = ("preload", "verify", "--python", venv.python, "--runs", "2", "--json")

    proven, beside = (
        inside(*words, *more, cwd=venv.directory) for more in ((), ("--python", "/nowhere/python"))
    )

    report = json.loads(proven.out)
    assert (proven.code, report["verdict"], report["findings"]) == (0, "pass", [])
    for facts in (report["facts"], json.loads(beside.out)["facts"]):
        race = next(check for check in facts["checks"] if check["name"].startswith("race"))
        assert (race["python"], "2 of 2" in race["sentence"]) == (str(venv.python), True)
    assert beside.code == 2
    assert [(each["python"], each["refused"]["exit_code"]) for each in facts["refused"]] == [
        ("/nowhere/python", 2)
    ]


def test_exit_code_is_1_where_it_fails_and_86_where_nothing_is_proven(
    venv: Venv, tmp_path: Path
) -> None:
    none = Venv(interpreters()["own"], tmp_path / "none")
    venv.put({"lazy/__init__.py": LAZY})
    install_shims([venv.python], [parse_rule(RULE)], dry_run=False)
    (venv.site_dir / PATH_FILE).write_text("# nothing\n")

    words = ("preload", "verify", "--runs", "1", "--venv", none.directory)
    assert inside(*words, cwd=tmp_path).code == 86
    assert inside(*words, "--venv", venv.directory, cwd=tmp_path).code == 1
