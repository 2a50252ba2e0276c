# SPDX-License-Identifier: Apache-2.0
"""Which branches count."""

import pytest

from ci_doctor.compat.breaks import Judged
from ci_doctor.compat.judge import judge
from tests.unit.compat.trees import judged, tree

LIB = """
    __version__ = "2.3.1"
    VERSION = (2, 3, 1)
    def new(x): ...
    def f(a): ...
"""
# The app's other module.
COMPAT = """
    import re
    import lib
    from lib import __version__ as V
    V2 = V.startswith("2.")
    AT_LEAST = tuple(int(part) for part in V.split(".")[:2])
    def is_v2():
        return V2
    def at_least(text):
        return V >= text
    OPAQUE = tuple(map(int, re.findall(r"\\d+", lib.__version__))) >= (2,)
    class Flags:
        def __init__(self):
            self.modern = OPAQUE
"""
# Each is a test that is true on the version of LIB.
TRUE = {
    "inline": "lib.__version__ >= '2'",
    "a name": "V2",
    "a name of a name": "MODERN",
    "not the opposite": "not OLD",
    "a tuple": "tuple(int(part) for part in V.split('.')[:2]) >= (2, 0)",
    "a mapped tuple": "tuple(map(int, V.split('.'))) >= (2, 0)",
    "a part of a tuple": "lib.VERSION[0] == 2",
    "a slice": "lib.VERSION[:2] >= (2, 3)",
    "a part of a text": "int(V.split('.')[0]) > 1",
    "a partition": "V.partition('.')[0] == '2'",
    "a chain of comparisons": "(2, 0) <= lib.VERSION < (3, 0)",
    "one of several": "V.split('.')[0] in ('2', '3')",
    "both": "V2 and lib.VERSION > (1,)",
    "another module's name": "compat.V2",
    "another module's tuple": "compat.AT_LEAST >= (2, 3)",
    "an imported name": "IMPORTED",
    "a function": "compat.is_v2()",
    "an own function": "own_test()",
    "a starred import": "len(V) > 3 and V[0] == '2'",
}
# Nobody decides these, but they are about versions.
OPAQUE = {
    "a regex": "compat.OPAQUE",
    "a function with arguments": "compat.at_least('2')",
    "an attribute of self": "Flags().modern or self_test()",
    "an unknown comparison": "compare(V, '2') >= 0",
    "a name of a regex": "OPAQUE_NAME",
}
HEAD = """
import re
import lib
from lib import __version__ as V
from app import compat
from app.compat import V2 as IMPORTED, Flags
V2 = V.startswith("2.")
MODERN = V2
OLD = lib.VERSION < (2,)
OPAQUE_NAME = re.match(r"(\\d)", V).group(1) == "2"
def own_test():
    return lib.VERSION >= (2,)
def self_test():
    return compat.OPAQUE
"""


def guarded(use: str) -> Judged:
    caller = {"app/__init__.py": "", "app/compat.py": COMPAT, "app/use.py": HEAD + use}
    callee = {"lib/__init__.py": LIB}
    return judge(tree("app", caller), [tree("lib", callee, "2.3.1")], python=(3, 12))


@pytest.mark.parametrize("test", [*TRUE.values(), *OPAQUE.values()], ids=[*TRUE, *OPAQUE])
def test_the_branch_of_another_version_is_no_break(test: str) -> None:
    use = f"if {test}:\n    from lib import new\nelse:\n    from lib import old\n"

    assert guarded(use).breaks == []


@pytest.mark.parametrize("test", TRUE.values(), ids=TRUE)
def test_a_break_in_the_branch_of_this_version_is_a_break(test: str) -> None:
    use = f"if {test}:\n    from lib import gone\nelse:\n    from lib import new\n"

    assert [each.symbol for each in guarded(use).breaks] == ["lib.gone"]


MARKS = {
    "skipif": "@pytest.mark.skipif(V2, reason='new')\ndef test_old():\n    from lib import old\n",
    "skipif by keyword": "@pytest.mark.skipif(condition=V2, reason='')\ndef test_old():\n    lib.old()\n",
    "a named mark": "old_only = pytest.mark.skipif(V2, reason='')\n@old_only\ndef test_old():\n    lib.old()\n",
    "skipUnless": "@unittest.skipUnless(OLD, 'old')\ndef test_old():\n    lib.old()\n",
    "a class": "@pytest.mark.skipif(V2, reason='')\nclass TestOld:\n    def test_a(self):\n        lib.old()\n",
    "an undecided mark": "@pytest.mark.skipif(OPAQUE_NAME, reason='')\ndef test_old():\n    lib.old()\n",
    "pytestmark": "pytestmark = pytest.mark.skipif(V2, reason='')\ndef test_old():\n    lib.old()\n",
    "a list of marks": "pytestmark = [pytest.mark.slow, pytest.mark.skipif(V2, reason='')]\ndef test_old():\n    lib.old()\n",
    "skip": "def test_old():\n    if V2:\n        pytest.skip('new')\n    lib.old()\n",
    "a module that is skipped": "if V2:\n    pytest.skip('new', allow_module_level=True)\nfrom lib import old\n",
    "importorskip": "pytest.importorskip('lib', minversion='3')\nfrom lib import old\n",
    "importorskip of a module": "pytest.importorskip('lib.gone')\nfrom lib.gone import old\n",
    "xfail": "@pytest.mark.xfail\ndef test_old():\n    lib.old()\n",
}


@pytest.mark.parametrize("text", MARKS.values(), ids=MARKS)
def test_a_test_that_does_not_run_on_this_version_is_no_break(text: str) -> None:
    assert guarded(f"import pytest, unittest\n{text}").breaks == []


def test_a_test_whose_mark_lets_it_run_is_judged() -> None:
    marked = "@pytest.mark.skipif(OLD, reason='')\ndef test_new():\n    lib.gone()\n"

    assert [each.symbol for each in guarded(f"import pytest\n{marked}").breaks] == ["lib.gone"]


def test_an_inner_fallback_does_not_hide_that_the_outer_import_succeeds() -> None:
    use = """
try:
    from lib import f
    try:
        from lib import New as R
    except ImportError:
        from lib import new as R
except ImportError:
    from own import f
f(1, 2)
"""

    (broken,) = guarded(use).breaks
    assert broken.sentence == "f() takes 1 positional argument, and 2 were given"


COUNTS = {
    "f(1, 2)": "f() takes 1 positional argument, and 2 were given",
    "C().m(1, 2, 3)": "C.m() takes from 2 to 3 positional arguments, and 4 were given",
    "C(1, 2)": "C() takes 2 positional arguments, and 3 were given",
}


@pytest.mark.parametrize(("call", "sentence"), COUNTS.items(), ids=COUNTS)
def test_arguments_are_counted_as_python_prints_them(call: str, sentence: str) -> None:
    lib = "def f(a): ...\nclass C:\n    def __init__(self, a): ...\n    def m(self, a, b=1): ...\n"
    # The same call, run: `but` stands where the sentence has `, and`.
    with pytest.raises(TypeError) as raised:
        exec(
            f"{lib}\nf(1)\nclass C(C):\n    def __init__(self, *a): a and super().__init__(*a)\n{call}",
            {},
        )
    assert sentence.split(" takes ")[1].replace(", and", " but") in str(raised.value)

    broken = judged(f"from lib import f, C\n{call}\n", {"lib/__init__.py": lib}).breaks
    assert [each.sentence for each in broken if "takes" in each.sentence] == [sentence]


LAZY = {
    "a table of names that are gone": (
        "_gone = {'old': 'removed'}\n"
        "def __getattr__(name):\n    if name in _gone:\n        raise AttributeError(_gone[name])\n"
        "    raise AttributeError(name)\n"
    ),
    "a table made of a list that is deleted later": (
        "_info = [('old', 'x'.format(1)), ('older', '')]\n_gone = {n: text for n, text in _info}\ndel _info\n"
        "def __getattr__(name):\n    if name in _gone:\n        raise AttributeError(_gone[name])\n"
        "    return find(name)\n"
    ),
    "a table that is looked up": (
        "_kept = {'other': 1}\n_kept.update({n: 2 for n, _ in [('more', object())]})\n"
        "def __getattr__(name):\n    try:\n        value = _kept[name]\n    except KeyError:\n        pass\n"
        "    else:\n        return value\n    raise AttributeError(name)\n"
    ),
    "a name that is given": (
        "def __getattr__(name):\n    if name == 'other':\n        return 1\n"
        "    raise AttributeError(f'no {name}')\n"
    ),
    "lazy_loader": "import lazy\n__getattr__, __dir__, __all__ = lazy.attach(__name__, ['sub'], {'sub': ['other']})\n",
    "globals that are read": "def __dir__():\n    return globals().keys() - {'x'}\n",
    "globals of a list": "for n in ['other', 'more']:\n    globals()[n] = make(n)\n",
}


@pytest.mark.parametrize("lib", LAZY.values(), ids=LAZY)
def test_a_name_that_a_lazy_module_refuses_is_gone(lib: str) -> None:
    def symbols(use: str) -> list[str]:
        callee = {"lib/__init__.py": lib, "lib/sub.py": "other = 1"}
        return [each.symbol for each in judged(use, callee).breaks]

    assert symbols("from lib import old\n") == ["lib.old"]
    assert symbols("import lib\nlib.old\n") == ["lib.old"]
    if "other" in lib:
        assert symbols("from lib import other\n") == []


def test_a_star_import_of_a_compiled_module_leaves_its_types_to_decide() -> None:
    files = {
        "lib/__init__.py": "from ._fast import *\nfrom ._slow import *\n",
        "lib/_fast.so": "fast",
        "lib/_slow.py": "def slow(): ...\n",
    }

    assert judged("from lib import slow\nslow(1)\n", files).errors == 1
    assert [each.line for each in judged("from lib import gone\n", files).open_imports] == [1]
    stub = {**files, "lib/_fast.pyi": "def fast(): ...\n"}
    assert judged("from lib import gone\n", stub).errors == 1
    assert judged("from lib import fast\n", stub).open_imports == []


def test_only_an_import_that_runs_and_is_not_handled_is_left_open() -> None:
    lib = {"lib/__init__.py": "def __getattr__(name):\n    return find(name)\n"}
    use = """
from lib import one
try:
    from lib import two
except ImportError:
    two = None
def later():
    from lib import three
"""
    opened = judged(use, lib).open_imports
    assert [each.text for each in opened] == ["from lib import one"]


def test_an_attribute_of_a_descriptor_is_not_that_of_its_class() -> None:
    lib = """
class Accessor:
    def __get__(self, obj, cls): ...
class Series:
    dt = Accessor()
"""
    use = "from lib import Series\nSeries().dt.month\n"
    assert judged(use, {"lib/__init__.py": lib}).breaks == []
