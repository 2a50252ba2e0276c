# SPDX-License-Identifier: Apache-2.0
"""The programs of the corpus with their labels, and how to set one up to be run."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree

HERE = Path(__file__).parent
# Stand-ins in the programs: the first one is bound by tests, a service listens on the other.
BOUND, SERVED = "47000", "48000"


@dataclass(frozen=True)
class Labelled:
    """A program, its flaky test, and what is to be found.

    before: names of the tests that run before it, after the fillers. culprit: a part of the answer.
    error: the exception with which it fails in the suite.
    """

    kind: str
    name: str
    test: str
    culprit: str
    before: Sequence[str] = ()
    error: str = "AssertionError"


LABELS = (
    Labelled("state", "setting", "test_is_quiet", "test_debug_output", ("test_debug_output", "test_currency")),
    Labelled("state", "cache", "test_price", "test_other_rate", ("test_names", "test_other_rate")),
    Labelled("state", "registry", "test_no_order_yet", "test_order", ("test_order",)),
    Labelled("environment", "set_variable", "test_default_mode", "test_fast_mode", ("test_fast_mode",)),
    Labelled("environment", "removed_variable", "test_region", "test_without_region", ("test_without_region",), "KeyError"),
    Labelled("environment", "search_path", "test_tool_is_there", "test_tool_is_missing", ("test_tool_is_missing",)),
    Labelled("directory", "relative_path", "test_prices", "test_export", ("test_export",), "FileNotFoundError"),
    Labelled("directory", "removed_directory", "test_working_directory", "test_in_a_scratch_directory", ("test_in_a_scratch_directory",), "FileNotFoundError"),
    Labelled("directory", "root", "test_package_is_here", "test_absolute_names", ("test_absolute_names",)),
    Labelled("concurrency", "ticking_thread", "test_no_sales_meanwhile", "test_background_sales", ("test_background_sales",)),
    Labelled("concurrency", "closed_loop", "test_default_loop", "test_with_a_loop", ("test_with_a_loop",), "RuntimeError"),
    Labelled("concurrency", "idle_thread", "test_single_thread", "test_pool", ("test_pool",)),
    Labelled("process", "held_lock", "test_lock_is_free", "test_holder", ("test_holder",), "BlockingIOError"),
    Labelled("process", "held_name", "test_server_name", "test_server_starts", ("test_server_starts",), "OSError"),
    Labelled("process", "worker", "test_no_worker", "test_worker_starts", ("test_worker_starts",)),
    Labelled("file", "made_file", "test_begins_without_state", "test_saves_state", ("test_saves_state",)),
    Labelled("file", "changed_file", "test_list", "test_update", ("test_update",)),
    Labelled("file", "temporary_file", "test_lock_is_free", "test_takes_lock", ("test_takes_lock",), "FileExistsError"),
    Labelled("import", "setting", "test_c_euros.py::test_euros", "test_b_dollars.py", ("test_b_dollars.py::test_dollars",)),
    Labelled("import", "variable", "test_c_online.py::test_online", "test_b_offline.py", ("test_b_offline.py::test_offline",)),
    Labelled("import", "precision", "test_c_exact.py::test_exact", "test_b_rough.py", ("test_b_rough.py::test_rough",)),
    Labelled("brittle", "setting", "test_limit", "test_sets_limit", ("test_sets_limit", "test_other"), "KeyError"),
    Labelled("brittle", "variable", "test_user", "test_log_in", ("test_log_in",), "KeyError"),
    Labelled("brittle", "folder", "test_export", "test_makes_folder", ("test_makes_folder",), "FileNotFoundError"),
    Labelled("earlier-run", "folder", "test_makes_folder", "test_makes_folder", (), "FileExistsError"),
    Labelled("earlier-run", "database", "test_insert", "test_insert", (), "IntegrityError"),
    Labelled("earlier-run", "appended", "test_one_line", "test_one_line"),
    Labelled("hash-seed", "first_of_set", "test_first", "PYTHONHASHSEED="),
    Labelled("hash-seed", "joined_set", "test_joined", "PYTHONHASHSEED="),
    Labelled("hash-seed", "bucket", "test_bucket", "PYTHONHASHSEED="),
    Labelled("random-seed", "chance", "test_chance", "seed "),
    Labelled("random-seed", "shuffled", "test_shuffled", "seed "),
    Labelled("random-seed", "sampled", "test_no_pair", "seed "),
    Labelled("time-zone", "epoch", "test_epoch", "TZ="),
    Labelled("time-zone", "today", "test_today", "TZ="),
    Labelled("time-zone", "mktime", "test_mktime", "TZ="),
    Labelled("clock", "same_second", "test_same_second", "second"),
    Labelled("clock", "same_day", "test_same_day", "midnight"),
    Labelled("clock", "file_name", "test_name", "second"),
    Labelled("load", "short_sleep", "test_thread_is_done", "stand still"),
    Labelled("load", "elapsed", "test_is_fast", "stand still"),
    Labelled("load", "short_timeout", "test_answers_soon", "stand still", (), "TimeoutExpired"),
    Labelled("port", "socket", "test_listens", "port ", (), "OSError"),
    Labelled("port", "http_server", "test_serves", "port ", (), "OSError"),
    Labelled("port", "asyncio_server", "test_serves", "port ", (), "OSError"),
    Labelled("network", "socket", "test_greets", "127.0.0.1", (), "ConnectionRefusedError"),
    Labelled("network", "http", "test_asks", "127.0.0.1", (), "URLError"),
    Labelled("network", "asyncio", "test_asks", "127.0.0.1", (), "ConnectionRefusedError"),
    Labelled("none", "stable", "test_sum", ""),
    Labelled("none", "coin", "test_coin", ""),
    Labelled("none", "broken", "test_broken", ""),
)  # fmt: skip


@dataclass(frozen=True)
class Placed:
    """A program in a directory of its own: node ids of the flaky test and of those before it."""

    directory: Path
    test: str
    before: tuple[str, ...]


def place(label: Labelled, directory: Path, *, served: int, fillers: int = 12) -> Placed:
    """Copy a program to `directory`; `served` is the port on which a service listens.

    fillers: the number of tests before those of the program that neither break nor need anything.
    """
    copytree(HERE / "shop", directory / "shop")
    (directory / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
    text = (HERE / "fillers.py").read_text().replace("range(12)", f"range({fillers})")
    (directory / "test_a_fillers.py").write_text(text)
    source = HERE / label.kind / label.name
    files = {}
    if source.is_dir():
        files = {path.name: path.read_text() for path in source.glob("*.py")}
    else:
        files[f"test_{label.name}.py"] = source.with_suffix(".py").read_text()
    bound = str(free_port())
    for name, text in files.items():
        (directory / name).write_text(text.replace(BOUND, bound).replace(SERVED, str(served)))
    own = f"test_{label.name}.py"
    harmless = [f"test_a_fillers.py::test_arithmetic[{number}]" for number in range(fillers)]
    before = [*harmless, *(_node(own, name) for name in label.before)]
    return Placed(directory=directory, test=_node(own, label.test), before=tuple(before))


def _node(own: str, name: str) -> str:
    return name if "::" in name else f"{own}::{name}"


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
