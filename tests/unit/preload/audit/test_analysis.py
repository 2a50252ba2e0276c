# SPDX-License-Identifier: Apache-2.0
"""Which thread starts an entry point reaches, and which imports they race."""

from pathlib import Path

import pytest

from ci_doctor.preload.audit.analysis import Analysis
from ci_doctor.preload.audit.entry_points import EntryPoint
from ci_doctor.preload.audit.library import Library
from ci_doctor.preload.audit.limits import Limits
from ci_doctor.preload.audit.merged import rule_text
from ci_doctor.preload.audit.races import RaceHazard
from ci_doctor.preload.audit.resolver import Resolver
from ci_doctor.preload.audit.sources import SourceTree
from tests.unit.preload.audit.packages import audit, audit_with_limits, write

LAZY = "import sys\nclass Lazy: pass\nsys.modules[__name__] = Lazy()\n"
WORK = "def work():\n    import lazy\n"

# Each starts one thread that runs `work`, when `main` is called.
WAYS = {
    "thread": "import threading\ndef main():\n    threading.Thread(target=work).start()",
    "alias": "from threading import Thread as T\ndef main():\n    T(target=work).start()",
    "name": "import threading\ndef main():\n    t = threading.Thread(None, work)\n    t.start()",
    "timer": "import threading\ndef main():\n    threading.Timer(1, work).start()",
    "low level": "import _thread\ndef main():\n    _thread.start_new_thread(work, ())",
    "submit": (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "def main():\n    pool = ThreadPoolExecutor(2)\n    pool.submit(work)"
    ),
    "with map": (
        "import concurrent.futures\ndef main():\n"
        "    with concurrent.futures.ThreadPoolExecutor() as pool:\n"
        "        pool.map(work, [1])"
    ),
    "thread pool": (
        "from multiprocessing.pool import ThreadPool\n"
        "def main():\n    ThreadPool(2).apply_async(work)"
    ),
    "to_thread": (
        "import asyncio\nasync def run():\n    await asyncio.to_thread(work)\n"
        "def main():\n    asyncio.run(run())"
    ),
    "run_in_executor": (
        "import asyncio\nasync def run(loop):\n    loop.run_in_executor(None, work)\n"
        "def main():\n    asyncio.run(run(asyncio.get_event_loop()))"
    ),
    "lambda": "import threading\ndef main():\n    threading.Thread(target=lambda: work()).start()",
    "partial": (
        "import functools, threading\n"
        "def main():\n    threading.Thread(target=functools.partial(work)).start()"
    ),
    "subclass": (
        "import threading\nclass Worker(threading.Thread):\n    def run(self):\n        work()\n"
        "def main():\n    Worker().start()"
    ),
    "subclass that starts itself": (
        "import threading\nclass Worker(threading.Thread):\n"
        "    def __init__(self):\n        super().__init__()\n        self.start()\n"
        "    def run(self):\n        work()\n"
        "def main():\n    Worker()"
    ),
    "subclass with a target": (
        "import threading\nclass Worker(threading.Thread):\n"
        "    def __init__(self):\n        threading.Thread.__init__(self, target=work)\n"
        "def main():\n    Worker().start()"
    ),
    "own start": (
        "import threading\nclass Worker(threading.Thread):\n"
        "    def start(self):\n        threading.Thread.start(self)\n"
        "    def run(self):\n        work()\n"
        "def main():\n    Worker().start()"
    ),
    "attribute": (
        "import threading\nclass Service:\n"
        "    def __init__(self):\n        self.thread = threading.Thread(target=self.loop)\n"
        "    def loop(self):\n        work()\n"
        "    def go(self):\n        self.thread.start()\n"
        "def main():\n    Service().go()"
    ),
    "helper": (
        "import threading\ndef spawn(function):\n"
        "    threading.Thread(target=function).start()\n"
        "def main():\n    spawn(work)"
    ),
    "decorator": (
        "import threading\ndef background(function):\n"
        "    def wrapper(*args):\n        threading.Thread(target=function).start()\n"
        "    return wrapper\n"
        "@background\ndef job():\n    work()\n"
        "def main():\n    job()"
    ),
    "list": (
        "import threading\ndef main():\n"
        "    threads = [threading.Thread(target=work) for _ in range(3)]\n"
        "    for thread in threads:\n        thread.start()"
    ),
    "appended": (
        "import threading\ndef main():\n    threads = []\n"
        "    threads.append(threading.Thread(target=work))\n"
        "    for thread in threads:\n        thread.start()"
    ),
    "module name": (
        "import threading\n_thread = None\ndef main():\n    global _thread\n"
        "    _thread = threading.Thread(target=work)\n    _thread.start()"
    ),
    "factory": (
        "import threading\ndef make():\n    return threading.Thread(target=work)\n"
        "def main():\n    make().start()"
    ),
    "table of functions": (
        "import threading\nJOBS = {'work': work}\ndef main(name='work'):\n"
        "    threading.Thread(target=JOBS[name]).start()"
    ),
    "class body": (
        "import threading\nclass Settings:\n    thread = threading.Thread(target=work)\n"
        "    thread.start()\ndef main():\n    pass"
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_starting_a_thread_is_found_with_what_it_races(
    way: str, tmp_path: Path
) -> None:
    files = {"lazy.py": LAZY, "pkg/cli.py": f"{WORK}{WAYS[way]}\n    import lazy\n"}

    (start,) = audit(tmp_path, files)

    awaited = way in {"to_thread", "with map"}
    raced = [race.raced.module for race in start.harmful() if race.rival == "the main thread"]
    assert raced == ([] if awaited else ["lazy"])


def test_what_the_main_thread_imported_before_does_not_race(tmp_path: Path) -> None:
    cli = f"import threading, lazy\n{WORK}def main():\n    threading.Thread(target=work).start()\n"
    cli += "    import lazy\n"

    (start,) = audit(tmp_path, {"lazy.py": LAZY, "pkg/cli.py": cli})

    assert start.races == ()


def test_a_joined_thread_does_not_race(tmp_path: Path) -> None:
    cli = (
        f"import threading\n{WORK}def main():\n    t = threading.Thread(target=work)\n"
        "    t.start()\n    t.join()\n    import lazy\n"
    )

    (start,) = audit(tmp_path, {"lazy.py": LAZY, "pkg/cli.py": cli})

    assert start.races == ()


def test_the_other_arm_of_a_condition_does_not_race(tmp_path: Path) -> None:
    cli = (
        f"import sys, threading\n{WORK}def main():\n    if len(sys.argv) > 1:\n"
        "        threading.Thread(target=work).start()\n        return\n    import lazy\n"
    )

    (start,) = audit(tmp_path, {"lazy.py": LAZY, "pkg/cli.py": cli})

    assert start.races == ()


def test_a_start_at_import_races_what_the_importer_goes_on_to_import(tmp_path: Path) -> None:
    files = {
        "lazy.py": LAZY,
        "pkg/background.py": f"import threading\n{WORK}threading.Thread(target=work).start()\n",
        "pkg/config.py": "from lazy import Config, Model\n",
        "pkg/cli.py": "def main():\n    from pkg import background\n    from pkg import config\n",
    }

    (start,) = audit(tmp_path, files)

    assert start.when == "at import"
    assert start.worst is RaceHazard.REPLACES_ITSELF
    assert rule_text(start) == "pkg.background=lazy:Config,Model"


def test_type_checking_and_other_systems_are_not_run(tmp_path: Path) -> None:
    cli = (
        f"import sys, threading\nfrom typing import TYPE_CHECKING\n{WORK}def main():\n"
        "    threading.Thread(target=work).start()\n"
        "    if TYPE_CHECKING:\n        import lazy\n"
        "    if sys.platform == 'win32':\n        import lazy\n"
        "    if sys.version_info < (3, 9):\n        import lazy\n"
    )

    (start,) = audit(tmp_path, {"lazy.py": LAZY, "pkg/cli.py": cli})

    assert start.races == ()


def test_a_module_run_with_m_runs_its_main_block(tmp_path: Path) -> None:
    main = f"import threading\n{WORK}if __name__ == '__main__':\n    threading.Thread(target=work)"
    files = {"lazy.py": LAZY, "pkg/__main__.py": f"{main}.start()\n"}

    assert audit(tmp_path, files, "pkg.__main__", is_main=True)[0].when == "when run"
    assert audit(tmp_path, files, "pkg.__main__") == ()


def test_a_circle_entered_at_two_modules_may_race(tmp_path: Path) -> None:
    files = {
        "pkg/a.py": "import pkg.b\n",
        "pkg/b.py": "import pkg.a\n",
        "pkg/cli.py": (
            "import threading\ndef work():\n    import pkg.a\ndef main():\n"
            "    threading.Thread(target=work).start()\n    import pkg.b\n"
        ),
    }

    (start,) = audit(tmp_path, files)

    assert start.worst is RaceHazard.CIRCLE


def test_a_circle_entered_at_one_module_is_safe(tmp_path: Path) -> None:
    files = {
        "pkg/a.py": "import pkg.b\n",
        "pkg/b.py": "import pkg.a\n",
        "pkg/cli.py": (
            "import threading\ndef work():\n    import pkg.a\ndef main():\n"
            "    threading.Thread(target=work).start()\n    import pkg.a\n"
        ),
    }

    (start,) = audit(tmp_path, files)

    assert start.worst is RaceHazard.SAFE
    assert {race.raced.module for race in start.races} >= {"pkg.a", "pkg.b"}


def test_a_package_and_its_submodule_may_race(tmp_path: Path) -> None:
    files = {
        "other/__init__.py": "from other import part\n",
        "other/part.py": "",
        "pkg/cli.py": (
            "import threading\ndef work():\n    import other\ndef main():\n"
            "    threading.Thread(target=work).start()\n    import other.part\n"
        ),
    }

    (start,) = audit(tmp_path, files)

    assert start.harmful()[0].raced.hazard is RaceHazard.SUBMODULE


def test_a_missing_module_is_said_to_be_unknown(tmp_path: Path) -> None:
    cli = (
        "import threading\ndef work():\n    import not_there_at_all\ndef main():\n"
        "    threading.Thread(target=work).start()\n    from not_there_at_all import a\n"
    )

    (start,) = audit(tmp_path, {"pkg/cli.py": cli})

    assert start.worst is RaceHazard.NOT_INSTALLED
    assert rule_text(start) == "pkg.cli=not_there_at_all:a"


def test_imports_behind_a_chain_of_calls_and_modules_count(tmp_path: Path) -> None:
    files = {
        "lazy.py": LAZY,
        "pkg/deep.py": "from .deeper import load\nclass Loader:\n    def go(self):\n        load()\n",
        "pkg/deeper.py": "def load():\n    from . import leaf\n",
        "pkg/leaf.py": "import lazy\n",
        "pkg/cli.py": (
            "import threading\nfrom pkg.deep import Loader\ndef main():\n"
            "    threading.Thread(target=Loader().go).start()\n    import lazy\n"
        ),
    }

    (start,) = audit(tmp_path, files)

    assert [race.raced.module for race in start.harmful()] == ["lazy"]


def test_two_threads_race_each_other(tmp_path: Path) -> None:
    cli = (
        f"import threading\n{WORK}def other():\n    from lazy import a\ndef main():\n"
        "    threading.Thread(target=work).start()\n    threading.Thread(target=other).start()\n"
    )

    first, second = audit(tmp_path, {"lazy.py": LAZY, "pkg/cli.py": cli})

    assert [race.rival for race in first.harmful()] == ["the thread started at pkg.cli:8"]
    assert second.harmful() == ()


def test_functions_handed_to_a_framework_are_taken_as_called(tmp_path: Path) -> None:
    cli = (
        f"import click, threading\n{WORK}@click.group()\ndef main():\n    pass\n"
        "@main.command()\ndef serve():\n    threading.Thread(target=work).start()\n    import lazy\n"
    )

    (start,) = audit(tmp_path, {"lazy.py": LAZY, "pkg/cli.py": cli})

    assert start.when == "if called"
    assert start.worst is RaceHazard.REPLACES_ITSELF


def test_what_cannot_be_followed_is_counted(tmp_path: Path) -> None:
    cli = (
        "import importlib, threading\ndef main(name, thing, function):\n"
        "    importlib.import_module(name)\n    thing.start()\n"
        "    threading.Thread(target=function).start()\n"
    )

    (start,), limits = audit_with_limits(tmp_path, {"pkg/cli.py": cli})

    assert start.races == ()
    assert len(limits.dynamic_imports) == 1
    assert len(limits.unknown_starts) == 1
    assert len(limits.unknown_targets) == 1


def test_recursion_and_copies_of_itself_end(tmp_path: Path) -> None:
    cli = (
        "def again(x):\n    return again(x)\ndef main():\n    names = []\n"
        "    names = list(names)\n    for each in names:\n        each.start()\n"
        "    again(again)\n    main()\n"
    )

    assert audit(tmp_path, {"pkg/cli.py": cli}) == ()


def test_no_rule_is_offered_for_a_module_that_is_already_being_loaded(tmp_path: Path) -> None:
    files = {
        "pkg/__init__.py": (
            "import sys, threading\ndef work():\n    import pkg\n"
            "threading.Thread(target=work).start()\nsys.modules[__name__] = object()\n"
        ),
        "pkg/cli.py": "def main(): pass\n",
    }

    (start,) = audit(tmp_path, files)

    assert start.worst is RaceHazard.REPLACES_ITSELF
    assert rule_text(start) is None


def test_a_method_of_a_class_is_called_on_an_object_of_it(tmp_path: Path) -> None:
    cli = (
        f"import threading\n{WORK}class Scheduler:\n    def __init__(self):\n"
        "        self.thread = threading.Thread(target=work)\n"
        "    def start(self):\n        self.thread.start()\n        import lazy\n"
    )

    (start,) = audit(tmp_path, {"lazy.py": LAZY, "pkg/cli.py": cli}, "pkg.cli:Scheduler.start")

    assert start.worst is RaceHazard.REPLACES_ITSELF


START = "import threading\n" + WORK + "def go():\n    threading.Thread(target=work).start()\n"
AT_IMPORT = START + "go()\n"
USE = "from lazy import Thing\n"
# Each starts one thread, when `pkg` is imported.
LOADED = {
    "a submodule that the package imports from itself": {
        "pkg/__init__.py": "from . import inner\n" + USE,
        "pkg/inner.py": AT_IMPORT,
    },
    "a submodule that may be missing": {
        "pkg/__init__.py": "try:\n    from . import inner\nexcept ImportError:\n    inner = None\n" + USE,
        "pkg/inner.py": AT_IMPORT,
    },
    "a function of such a submodule": {
        "pkg/__init__.py": "from pkg import inner\ninner.go()\n" + USE,
        "pkg/inner.py": START,
    },
    "a name that only a star import gives, with a fallback": {
        "pkg/__init__.py": "import os\nif os.name:\n    from .inner import *\nelse:\n    go = None\ngo()\n" + USE,
        "pkg/inner.py": START,
    },
    "a relative name for import_module": {
        "pkg/__init__.py": "import importlib\nNAME = '.inner'\nimportlib.import_module(NAME, package=__name__)\n" + USE,
        "pkg/inner.py": AT_IMPORT,
    },
    "a relative name by __package__": {
        "pkg/__init__.py": "import importlib\nimportlib.import_module('..inner', __package__ + '.deep')\n"
        "importlib.import_module('.inner', __package__)\n" + USE,
        "pkg/inner.py": AT_IMPORT,
    },
    "a hook of subclasses": {
        "pkg/__init__.py": START + "class Base:\n    def __init_subclass__(cls, **named):\n"
        "        super().__init_subclass__(**named)\n        go()\nclass Plugin(Base):\n    pass\n" + USE,
    },
    "a name that a module's __getattr__ imports": {
        "pkg/__init__.py": "import pkg.user\n" + USE,
        "pkg/user.py": "from pkg.lazily import thing\n",
        "pkg/lazily.py": "import importlib\n_LAZY = {'thing': '.inner'}\ndef __getattr__(name):\n"
        "    return getattr(importlib.import_module(_LAZY[name], __package__), name)\n",
        "pkg/inner.py": AT_IMPORT,
    },
    "names in a loop, put together": {
        "pkg/__init__.py": "import importlib\nfor name in ('other', 'inner'):\n"
        "    importlib.import_module(f'{__name__}.{name}')\n" + USE,
        "pkg/other.py": "",
        "pkg/inner.py": AT_IMPORT,
    },
    "a name that is added to": {
        "pkg/__init__.py": "import importlib\nimportlib.import_module(__name__ + '.inner')\n" + USE,
        "pkg/inner.py": AT_IMPORT,
    },
    "an import by the thread's own target": {
        "pkg/__init__.py": "import importlib, threading\n"
        "threading.Thread(target=importlib.import_module, args=('lazy',)).start()\n" + USE,
    },
    "an import by __import__ in a pool": {
        "pkg/__init__.py": "from concurrent.futures import ThreadPoolExecutor\n"
        "pool = ThreadPoolExecutor(1)\npool.submit(__import__, 'lazy')\n" + USE,
    },
}  # fmt: skip


@pytest.mark.parametrize("way", LOADED)
def test_every_way_of_loading_what_starts_a_thread_is_followed(way: str, tmp_path: Path) -> None:
    starts = audit(tmp_path, {"lazy.py": LAZY, **LOADED[way]}, "pkg")

    assert [start.worst for start in starts] == [RaceHazard.REPLACES_ITSELF]


def test_a_submodule_that_cannot_be_parsed_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"pkg/__init__.py": "from . import broken", "pkg/broken.py": "def x(:"})
    library = Library(SourceTree([str(tmp_path)], {}), ["pkg"])

    Analysis(Resolver(library), Limits(), lambda: False).entry(
        EntryPoint(label="pkg", module="pkg", attribute="", is_main=False)
    )

    assert set(library.unread) == {"pkg.broken"}
