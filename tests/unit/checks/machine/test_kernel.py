# SPDX-License-Identifier: Apache-2.0
"""How the kernel is set up and how busy it is, the clock, and the locale."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckStatus, UndeterminedError
from ci_doctor.checks.kernel import (
    Dated,
    clock,
    clock_error_s,
    commit_dates,
    file_dates,
    git_directory,
    kernel_settings,
    load,
    locale,
    time_zone,
    wrong_clock,
)
from ci_doctor.machine.host import codeset_of, effective_locale, named_locales, python_encoding
from ci_doctor.model.finding import Severity
from tests.support.checks import check_context
from tests.support.cli import BARE
from tests.support.machine_trees import write_tree


def test_a_load_of_20_for_each_cpu_is_a_note_and_no_more(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"proc/loadavg": "99999.50 9 9 1/300 4000\n"})

    result = load.run(check_context(tmp_path, root=root))

    assert result.status is CheckStatus.OK
    assert [each.finding.severity for each in result.problems] == [Severity.NOTE]


def test_processes_that_wait_for_memory_are_a_note(tmp_path: Path) -> None:
    some = "some avg10=34.50 avg60=9.00 avg300=1.00 total=5\nfull avg10=0.00 total=0\n"
    root = write_tree(
        tmp_path, {"proc/loadavg": "0.00 9 9 1/300 4000\n", "proc/pressure/memory": some}
    )

    result = load.run(check_context(tmp_path, root=root))

    (finding,) = [each.finding for each in result.problems]
    assert finding.summary == "processes waited for memory in 34.5 % of the last ten seconds"
    assert finding.severity is Severity.NOTE


def test_a_kernel_without_pressure_figures_is_no_problem(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"proc/loadavg": "0.00 9 9 1/300 4000\n"})

    assert load.run(check_context(tmp_path, root=root)).status is CheckStatus.OK


def test_without_proc_the_load_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(UndeterminedError):
        load.run(check_context(tmp_path, root=tmp_path))


KEPT = 0.001
# Of a virtual machine without NTP.
NOW = 1_800_000_000.0
HOUR = 3600.0


def findings(*dated: Dated, error_s: float | None = None) -> list[tuple[str, Severity]]:
    return [
        (each.finding.summary, each.finding.severity) for each in wrong_clock(error_s, dated, NOW)
    ]


def test_a_clock_before_the_commit_is_an_error() -> None:
    commit = Dated(name="the commit that is checked out", at=NOW + 48 * HOUR)

    assert findings(commit) == [
        ("the clock is 48 h 00 min behind the commit that is checked out", Severity.ERROR)
    ]


def test_a_file_from_the_future_warns_because_an_archive_may_have_made_it() -> None:
    file = Dated(name="the time of /job/a", at=NOW + 48 * HOUR, is_sure=False)

    assert [severity for _, severity in findings(file)] == [Severity.WARNING]


def test_the_surest_of_several_dates_is_named() -> None:
    file = Dated(name="the time of /job/a", at=NOW + 99 * HOUR, is_sure=False)
    commit = Dated(name="the commit", at=NOW + 2 * HOUR)

    assert findings(file, commit) == [("the clock is 2 h 00 min behind the commit", Severity.ERROR)]


@pytest.mark.parametrize(
    ("behind_s", "severity"),
    [(-5.0, []), (299.0, []), (301.0, [Severity.WARNING]), (3700.0, [Severity.ERROR])],
)
def test_a_clock_that_is_minutes_off_warns(behind_s: float, severity: list[Severity]) -> None:
    commit = Dated(name="the commit", at=NOW + behind_s)

    assert [severity for _, severity in findings(commit)] == severity


def test_a_commit_of_the_future_warns_only_if_the_clock_is_kept_right() -> None:
    commit = Dated(name="the commit", at=NOW + 48 * HOUR)

    assert findings(commit, error_s=KEPT) == [
        (
            "the clock is 48 h 00 min behind the commit, and a program keeps the clock right",
            Severity.WARNING,
        )
    ]


def test_a_clock_that_its_own_keeper_doubts_warns() -> None:
    assert findings(error_s=12.0) == [("the clock may be off by 12.0 s", Severity.WARNING)]


def test_a_clock_that_a_hypervisor_may_keep_is_no_problem() -> None:
    assert findings() == []


def test_the_clock_of_this_machine_is_right(tmp_path: Path) -> None:
    result = clock.run(check_context(tmp_path))

    assert result.status is CheckStatus.OK


def test_files_that_git_has_written_in_the_future_are_a_problem(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    index = tmp_path / ".git" / "index"
    index.write_text("")
    later = time.time() + 86400
    os.utime(index, (later, later))

    result = clock.run(check_context(tmp_path))

    # A kept clock is right, so there the file is wrong.
    assert result.status in {CheckStatus.ERROR, CheckStatus.WARNING}
    assert str(index) in result.problems[0].finding.summary


@pytest.mark.parametrize(
    ("target", "zone"),
    [("/usr/share/zoneinfo/Europe/Berlin", "Europe/Berlin"), ("/etc/own", time.tzname[0])],
)
def test_the_time_zone_is_named(tmp_path: Path, target: str, zone: str) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "localtime").symlink_to(target)

    assert time_zone(check_context(tmp_path, environ={}, root=tmp_path)) == zone


def test_tz_stands_above_the_file(tmp_path: Path) -> None:
    assert time_zone(check_context(tmp_path, environ={"TZ": "UTC"})) == "UTC"


def test_the_kernel_answers_without_any_right_of_ours() -> None:
    error_s = clock_error_s()

    assert error_s is None or error_s >= 0


COMMITTED = 1_700_000_000


def repository(root: Path) -> Path:
    """A repository with one commit of a known date."""
    person = {
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@x",
        "GIT_COMMITTER_NAME": "committer 5 +0000",
        "GIT_COMMITTER_EMAIL": "c@x",
        "GIT_COMMITTER_DATE": f"{COMMITTED} +0200",
    }
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "committer x 1 +0000"]):
        subprocess.run(["git", *words], cwd=root, env={**os.environ, **person}, check=True)
    return root


def test_the_date_of_the_commit_is_the_committers(tmp_path: Path) -> None:
    (dated,) = commit_dates(check_context(repository(tmp_path)))

    assert dated.at == COMMITTED


@pytest.mark.skipif(os.getuid() != 0, reason="gives a checkout to another user")
def test_a_checkout_of_another_user_has_a_date_too(tmp_path: Path) -> None:
    repository(tmp_path)
    os.chown(tmp_path / ".git", 65534, 65534)
    os.chown(tmp_path, 65534, 65534)

    assert commit_dates(check_context(tmp_path))


def test_outside_a_checkout_there_is_no_commit(tmp_path: Path) -> None:
    assert commit_dates(check_context(tmp_path)) == []


def test_a_repository_without_a_commit_has_no_date(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)

    assert commit_dates(check_context(tmp_path)) == []


def test_a_commit_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    repository(tmp_path)
    for file in (tmp_path / ".git" / "objects").glob("??/*"):
        file.unlink()

    with pytest.raises(UndeterminedError, match="does not say"):
        commit_dates(check_context(tmp_path))


def test_without_git_the_commit_is_unknown(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()

    with pytest.raises(UndeterminedError, match="git cannot be started"):
        commit_dates(check_context(tmp_path, environ={"PATH": str(tmp_path)}))


def test_a_worktree_names_its_git_directory(tmp_path: Path) -> None:
    (tmp_path / "worktree" / "deep").mkdir(parents=True)
    (tmp_path / "worktree" / ".git").write_text("gitdir: ../main/.git/worktrees/w\n")

    git = git_directory(tmp_path / "worktree" / "deep")

    assert git == tmp_path / "worktree" / "../main/.git/worktrees/w"


def test_what_git_writes_is_sure_and_other_files_are_not(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "archive.zip").write_text("")
    os.utime(tmp_path / "archive.zip", (5, 5))

    by_name = {Path(each.name.split()[-1]).name: each for each in file_dates(tmp_path)}

    assert by_name["HEAD"].is_sure
    assert not by_name["archive.zip"].is_sure
    assert by_name["archive.zip"].at == 5


def test_a_directory_that_cannot_be_listed_has_no_dates(tmp_path: Path) -> None:
    assert list(file_dates(tmp_path / "missing")) == []


MISSING = "tlh_QO.UTF-8"
SHOWN = "import locale; print(locale.getpreferredencoding(False))"
NAMES = {"ANSI_X3.4-1968": "ASCII", "ascii": "ASCII", "utf-8": "UTF-8"}


def test_a_locale_that_is_not_installed_warns_by_its_variable(tmp_path: Path) -> None:
    environ = {"LC_ALL": MISSING, "LANG": "C"}

    result = locale.run(check_context(tmp_path, environ=environ))

    assert result.status is CheckStatus.WARNING
    (finding,) = [each.finding for each in result.problems]
    assert finding.summary == f"LC_ALL names the locale {MISSING}, which is not installed"
    assert finding.remedy == "export LC_ALL=C.UTF-8"


@pytest.mark.parametrize(
    "environ", [{}, {"LC_ALL": "C"}, {"LANG": "POSIX"}, {"LC_ALL": "C.UTF-8", "LANG": MISSING}]
)
def test_plain_locales_are_ok(tmp_path: Path, environ: dict[str, str]) -> None:
    assert locale.run(check_context(tmp_path, environ=environ)).status is CheckStatus.OK


def test_python_in_ascii_warns(tmp_path: Path) -> None:
    environ = {"LC_ALL": "C", "PYTHONUTF8": "0"}

    result = locale.run(check_context(tmp_path, environ=environ))

    assert [each.finding.rule for each in result.problems] == ["doctor/locale-not-utf8"]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"LC_ALL": "C"},
        {"LC_ALL": "C.UTF-8"},
        {"LC_ALL": MISSING},
        {"LANG": MISSING, "PYTHONUTF8": "0"},
        {"LC_ALL": "C", "PYTHONUTF8": "0"},
        {"LANG": "C", "PYTHONUTF8": "0"},
        {"LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
def test_a_real_interpreter_takes_the_encoding_that_is_said(changes: dict[str, str]) -> None:
    codeset = codeset_of(effective_locale(changes) or "C")
    if effective_locale(changes) in {"", "C"}:
        codeset = None
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}

    ended = subprocess.run(
        [*BARE, "-c", SHOWN], env={**kept, **changes}, capture_output=True, text=True, check=True
    )

    encoding = ended.stdout.strip()
    assert NAMES.get(encoding, encoding) == python_encoding(changes, codeset)


def test_an_installed_locale_has_an_encoding_and_another_has_none() -> None:
    assert codeset_of("C.UTF-8") == "UTF-8"
    assert codeset_of(MISSING) is None


def test_the_encoding_of_a_locale_is_pythons() -> None:
    assert python_encoding({"LANG": "de_DE.ISO-8859-1"}, "ISO-8859-1") == "ISO-8859-1"
    assert python_encoding({"LANG": "de_DE", "PYTHONUTF8": "1"}, "ISO-8859-1") == "UTF-8"


def test_each_locale_counts_once_and_lc_all_alone() -> None:
    assert named_locales({"LANG": "a", "LC_CTYPE": "b", "LC_TIME": "b"}) == {
        "LC_CTYPE": "b",
        "LANG": "a",
    }
    assert named_locales({"LANG": "a", "LC_ALL": "b"}) == {"LC_ALL": "b"}


USUAL = {
    "proc/sys/vm/overcommit_memory": "0\n",
    "proc/sys/vm/max_map_count": "65530\n",
    "proc/sys/fs/inotify/max_user_instances": "128\n",
    "proc/sys/fs/inotify/max_user_watches": "8192\n",
    "proc/sys/kernel/yama/ptrace_scope": "1\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
}


def test_the_defaults_of_a_kernel_are_ok_and_stand_as_figures(tmp_path: Path) -> None:
    result = kernel_settings.run(check_context(tmp_path, root=write_tree(tmp_path, USUAL)))

    assert result.problems == ()
    assert result.figures["vm.max_map_count"] == 65530
    assert result.figures["transparent_hugepage"] == "madvise"


def test_strict_overcommit_warns_with_what_may_still_be_reserved(tmp_path: Path) -> None:
    meminfo = "CommitLimit: 1000000 kB\nCommitted_AS: 400000 kB\n"
    tree = {**USUAL, "proc/sys/vm/overcommit_memory": "2\n", "proc/meminfo": meminfo}

    result = kernel_settings.run(check_context(tmp_path, root=write_tree(tmp_path, tree)))

    assert result.status is CheckStatus.WARNING
    (finding,) = [each.finding for each in result.problems]
    assert finding.summary == "vm.overcommit_memory is 2, and 614.4 MB more may be reserved"
    assert finding.remedy == "sysctl vm.overcommit_memory=0"


def test_a_limit_below_its_default_warns_with_the_command(tmp_path: Path) -> None:
    tree = {**USUAL, "proc/sys/vm/max_map_count": "1000\n"}

    result = kernel_settings.run(check_context(tmp_path, root=write_tree(tmp_path, tree)))

    (finding,) = [each.finding for each in result.problems]
    assert finding.remedy == "sysctl vm.max_map_count=65530"


def test_a_kernel_that_forbids_ptrace_is_a_note(tmp_path: Path) -> None:
    tree = {**USUAL, "proc/sys/kernel/yama/ptrace_scope": "3\n"}

    result = kernel_settings.run(check_context(tmp_path, root=write_tree(tmp_path, tree)))

    assert result.status is CheckStatus.OK
    assert [each.finding.rule for each in result.problems] == ["doctor/ptrace-forbidden"]


def test_without_proc_sys_it_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(UndeterminedError):
        kernel_settings.run(check_context(tmp_path, root=tmp_path))
