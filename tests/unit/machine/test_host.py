# SPDX-License-Identifier: Apache-2.0
import resource
from pathlib import Path

from ci_doctor.machine.host import (
    content_of,
    fields_of,
    number_of,
    numbers_of,
    resource_limits,
)
from tests.support.machine_trees import write_tree


def test_what_cannot_be_read_is_empty(tmp_path: Path) -> None:
    assert content_of(tmp_path / "missing") == ""
    assert number_of(tmp_path) is None
    assert numbers_of(tmp_path / "missing") == {}


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


def test_the_limits_of_this_process_are_read() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    files = resource_limits()["nofile"]

    assert (files.soft, files.hard) == (soft, hard)
    assert files.shown() == ("unlimited" if soft == resource.RLIM_INFINITY else str(soft))
