# SPDX-License-Identifier: Apache-2.0
import resource
from pathlib import Path

from ci_doctor.machine.host import (
    chosen_word,
    content_of,
    fields_of,
    number_of,
    numbers_of,
    resource_limits,
)
from ci_doctor.system.processes.kernel_words import limit_of
from tests.support.machine_trees import UNLIMITED_V1, write_tree

MISSING = "tlh_QO.UTF-8"
SHOWN = "import locale; print(locale.getpreferredencoding(False))"
NAMES = {"ANSI_X3.4-1968": "ASCII", "ascii": "ASCII", "utf-8": "UTF-8"}


def test_what_cannot_be_read_is_empty(tmp_path: Path) -> None:
    assert content_of(tmp_path / "missing") == ""
    assert number_of(tmp_path) is None
    assert numbers_of(tmp_path / "missing") == {}


def test_no_limit_has_two_forms(tmp_path: Path) -> None:
    write_tree(tmp_path, {"v2": "max\n", "v1": f"{UNLIMITED_V1}\n", "some": "4096\n"})

    assert [limit_of(tmp_path / name) for name in ("v2", "v1", "some")] == [None, None, 4096]


def test_numbers_come_with_colons_and_units_or_without(tmp_path: Path) -> None:
    text = "MemTotal:  16 kB\noom_kill 3\nHugePages:\n\nname word\n"
    write_tree(tmp_path, {"file": text})

    assert numbers_of(tmp_path / "file") == {"MemTotal": 16, "oom_kill": 3}


def test_fields_of_the_first_cpu_end_at_an_empty_line(tmp_path: Path) -> None:
    text = "model name : A: B\nflags\t: fpu vme\n\nprocessor : 1\n"
    write_tree(tmp_path, {"cpuinfo": text, "os-release": '\nNAME=x\n\nPRETTY_NAME="Debian 12"\n'})

    first = fields_of(tmp_path / "cpuinfo", ":", is_first_block=True)

    assert first == {"model name": "A: B", "flags": "fpu vme"}
    assert fields_of(tmp_path / "os-release", "=")["PRETTY_NAME"] == "Debian 12"


def test_of_a_list_of_words_the_one_in_brackets_is_chosen() -> None:
    assert chosen_word("always [madvise] never\n") == "madvise"
    assert chosen_word("32768\t60999\n") == "32768 60999"


def test_the_limits_of_this_process_are_read() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    files = resource_limits()["nofile"]

    assert (files.soft, files.hard) == (soft, hard)
    assert files.shown() == ("unlimited" if soft == resource.RLIM_INFINITY else str(soft))
