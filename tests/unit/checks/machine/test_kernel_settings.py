# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckStatus, UndeterminedError
from ci_doctor.checks.machine.kernel_settings import CHECK
from tests.support.checks import check_context
from tests.support.machine_trees import write_tree

USUAL = {
    "proc/sys/vm/overcommit_memory": "0\n",
    "proc/sys/vm/max_map_count": "65530\n",
    "proc/sys/fs/inotify/max_user_instances": "128\n",
    "proc/sys/fs/inotify/max_user_watches": "8192\n",
    "proc/sys/kernel/yama/ptrace_scope": "1\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
}


def test_the_defaults_of_a_kernel_are_ok_and_stand_as_figures(tmp_path: Path) -> None:
    result = CHECK.run(check_context(tmp_path, root=write_tree(tmp_path, USUAL)))

    assert result.problems == ()
    assert result.figures["vm.max_map_count"] == 65530
    assert result.figures["transparent_hugepage"] == "madvise"


def test_strict_overcommit_warns_with_what_may_still_be_reserved(tmp_path: Path) -> None:
    meminfo = "CommitLimit: 1000000 kB\nCommitted_AS: 400000 kB\n"
    tree = {**USUAL, "proc/sys/vm/overcommit_memory": "2\n", "proc/meminfo": meminfo}

    result = CHECK.run(check_context(tmp_path, root=write_tree(tmp_path, tree)))

    assert result.status is CheckStatus.WARNING
    (finding,) = [each.finding for each in result.problems]
    assert finding.summary == "vm.overcommit_memory is 2, and 614.4 MB more may be reserved"
    assert finding.remedy == "sysctl vm.overcommit_memory=0"


def test_a_limit_below_its_default_warns_with_the_command(tmp_path: Path) -> None:
    tree = {**USUAL, "proc/sys/vm/max_map_count": "1000\n"}

    result = CHECK.run(check_context(tmp_path, root=write_tree(tmp_path, tree)))

    (finding,) = [each.finding for each in result.problems]
    assert finding.remedy == "sysctl vm.max_map_count=65530"


def test_a_kernel_that_forbids_ptrace_is_a_note(tmp_path: Path) -> None:
    tree = {**USUAL, "proc/sys/kernel/yama/ptrace_scope": "3\n"}

    result = CHECK.run(check_context(tmp_path, root=write_tree(tmp_path, tree)))

    assert result.status is CheckStatus.OK
    assert [each.finding.rule for each in result.problems] == ["doctor/ptrace-forbidden"]


def test_without_proc_sys_it_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(UndeterminedError):
        CHECK.run(check_context(tmp_path, root=tmp_path))
