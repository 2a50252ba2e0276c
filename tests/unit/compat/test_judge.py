# SPDX-License-Identifier: Apache-2.0
"""What breaks between two packages, and what does not."""

import pytest

from ci_doctor.compat.breaks import BreakFact, DirectionFact, PairFact
from ci_doctor.compat.outcome import was_judged
from tests.support.cases import cases
from tests.unit.compat.trees import breaks, judged

ADAPTER = """
    class Adapter:
        def __init__(self, url, context, model=None, *, mq_timeout=1.0): ...
        def lookup(self, tokens, *, wait=False): ...
        @classmethod
        def of(cls, url): return cls(url, None)
        @staticmethod
        def parse(text): ...
        @property
        def peer(self) -> "Adapter": ...
    def make(url) -> Adapter: ...
    def made(url):
        return Adapter(url, None)
    def plain(a, b=1): ...
    def rest(a, *args, **kwargs): ...
"""

# One line after `from lib.api import Adapter, make, made, plain, rest`: line 2 of the caller.
BROKEN = {
    "too many positional": "plain(1, 2, 3)",
    "positional and keyword": "plain(1, a=2)",
    "unknown keyword": "plain(1, c=2)",
    "missing": "plain()",
    "constructor": "Adapter('u')",
    "keyword-only by position": "Adapter('u', None, 'm', 5.0)",
    "method of an instance": "Adapter('u', None).lookup([], True)",
    "method through an annotated factory": "make('u').lookup([], timeout=1)",
    "method through an inferred factory": "made('u').lookup()",
    "classmethod": "Adapter.of()",
    "what a classmethod makes": "Adapter.of('u').lookup()",
    "staticmethod": "Adapter.parse('a', 'b')",
    "property": "make('u').peer.lookup()",
    "a star, and an unknown keyword": "plain(*args, c=1)",
    "a double star, and too many": "plain(1, 2, 3, **kw)",
    "a star behind too many": "plain(1, 2, 3, *args)",
    "a ternary": "(make if x else made)('u').lookup()",
    "an unbound method": "Adapter.lookup(Adapter('u', None))",
    "a walrus": "(a := make('u')).lookup()",
}
FINE = {
    "all arguments": "plain(1, b=2)",
    "a star that may fill": "plain(*args)",
    "a double star that may fill": "plain(**kw)",
    "any arguments": "rest(1, 2, 3, c=4)",
    "keyword-only": "Adapter('u', None, mq_timeout=2)",
    "an unknown receiver": "other().lookup()",
    "an instance that a test narrows": "isinstance(a, X) and a.lookup()",
}
HEAD = "from lib.api import Adapter, make, made, plain, rest\n"


def _kind(broken: BreakFact) -> str:
    return broken.rule.partition("/")[2]


@cases("line", BROKEN)
def test_a_call_that_surely_raises_is_a_break(line: str) -> None:
    assert breaks(f"{HEAD}{line}\n", ADAPTER) == ["call 2"]


@cases("line", FINE)
def test_a_call_that_may_succeed_is_none(line: str) -> None:
    assert breaks(f"{HEAD}{line}\n", ADAPTER) == []


DATACLASS = "from dataclasses import dataclass\n@dataclass\n"
DECLARED = {
    "a dataclass": (f"{DATACLASS}class P:\n    a: int\n    b: int = 0\n", "P(1, 2, 3)"),
    "fields of a base come first": (
        f"{DATACLASS}class B:\n    a: int\n@dataclass\nclass P(B):\n    b: int\n",
        "P(1)",
    ),
    "keyword-only fields": (
        "import dataclasses\n@dataclasses.dataclass(kw_only=True)\nclass P:\n    a: int\n",
        "P(1)",
    ),
    "a field outside the constructor": (
        (
            "from dataclasses import dataclass, field\n@dataclass\nclass P:\n"
            "    a: int\n    b: int = field(init=False)\n"
        ),
        "P(1, b=2)",
    ),
    "a named tuple": (
        "from typing import NamedTuple\nclass P(NamedTuple):\n    a: int\n",
        "P(1, 2)",
    ),
    "an enum's member": (
        "import enum\nclass P(enum.Enum):\n    A = 1\n",
        "P.B",
    ),
    "a base in another file": ("from lib.base import Base\nclass P(Base): ...\n", "P(1, 2)"),
    "functools.wraps": (
        (
            "import functools\ndef deco(f):\n    @functools.wraps(f)\n"
            "    def inner(*args, **kwargs):\n        return f(*args, **kwargs)\n    return inner\n"
            "@deco\ndef P(a): ...\n"
        ),
        "P(1, 2)",
    ),
    "an alias": ("def _p(a): ...\nP = _p\n", "P(1, 2)"),
}
UNDECIDED = {
    "an unknown decorator": ("import x\n@x.wrap\ndef P(a): ...\n", "P(1, 2)"),
    "a decorator that changes arguments": (
        (
            "def deco(f):\n    def inner(*args, **kwargs):\n        return f(*args[:1], **kwargs)\n"
            "    return inner\n@deco\ndef P(a): ...\n"
        ),
        "P(1, 2)",
    ),
    "an unknown base": ("import x\nclass P(x.Base): ...\n", "P(1, 2)"),
    "a metaclass": (
        "class M(type): ...\nclass P(metaclass=M):\n    def __init__(self): ...\n",
        "P(1)",
    ),
    "a library's dataclass": (
        "from pydantic.dataclasses import dataclass\n@dataclass\nclass P:\n    a: int\n",
        "P(1, 2)",
    ),
    "a lazy module": ("def __getattr__(name): ...\n", "P(1)"),
    "a name of globals": ("globals().update(x())\n", "P(1)"),
    "two definitions": (
        "import os\nif os.name == 'x':\n    def P(a): ...\nelse:\n    def P(a, b): ...\n",
        "P(1, 2)",
    ),
    "overloads alone": ("from typing import overload\n@overload\ndef P(a): ...\n", "P(1, 2)"),
}


@pytest.mark.parametrize(("callee", "use"), DECLARED.values(), ids=DECLARED)
def test_signatures_that_no_def_shows_are_known(callee: str, use: str) -> None:
    base = {"lib/base.py": "class Base:\n    def __init__(self, a): ...\n"}
    found = judged(f"from lib.api import P\n{use}\n", {"lib/api.py": callee, **base}).breaks

    assert [each.line for each in found] == [2]


@pytest.mark.parametrize(("callee", "use"), UNDECIDED.values(), ids=UNDECIDED)
def test_what_the_source_does_not_decide_is_counted_and_no_break(callee: str, use: str) -> None:
    found = judged(f"from lib.api import P\n{use}\n", {"lib/api.py": callee})

    assert found.breaks == []
    assert found.unknown >= 1


GONE = {
    "a name": ("from lib.api import gone", ["name-gone 1"]),
    "a module": ("import lib.gone", ["module-gone 1"]),
    "a module of a from": ("from lib.gone import a, b", ["module-gone 1"]),
    "an attribute of a module": ("import lib.api\nlib.api.gone()", ["attribute-gone 2"]),
    "an attribute of an instance": ("from lib.api import C\nC().gone", ["attribute-gone 2"]),
    "one that self has": ("from lib.api import C\nC().kept", []),
    "one that a base has": ("from lib.api import D\nD().kept", []),
    "one that other code assigns": ("from lib.api import C\nC().late", []),
    "one that the caller assigns": ("from lib.api import C\nc = C()\nc.own = 1\nC().own", []),
    "object's own": ("from lib.api import C\nC().__class__", []),
    "a submodule": ("import lib\nlib.api", []),
    "under TYPE_CHECKING": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from lib.api import gone",
        [],
    ),
}
CLASSES = """
    class C:
        def __init__(self):
            self.kept = 1
    class D(C): ...
    def later(c):
        c.late = 1
"""


@pytest.mark.parametrize(("caller", "expected"), GONE.values(), ids=GONE)
def test_a_name_is_gone_only_if_nothing_makes_it(caller: str, expected: list[str]) -> None:
    assert breaks(f"{caller}\n", CLASSES) == expected


NEW = "from lib.api import new\n"
LATER_GONE = "def f():\n    if not HAS:\n        from lib.api import gone"
FLAG = "    HAS = True\nexcept ImportError:\n    HAS = False\n"
VERSION = f"import lib\nfrom packaging.version import Version\n{NEW}"

BRANCHES_THAT_RUN = {
    "the first import succeeds": (
        "try:\n    from lib.api import new\nexcept ImportError:\n    from lib.api import old\nnew()",
        "call 5",
    ),
    "the fallback is what runs": (
        "try:\n    from lib.api import gone as f\nexcept ImportError:\n    from lib.api import new as f\nf()",
        "call 5",
    ),
    "both are gone": (
        "try:\n    from lib.api import gone\nexcept ImportError:\n    from lib.api import gone2",
        "name-gone 4",
    ),
    "a handler that raises hides nothing": (
        "try:\n    from lib.api import gone\nexcept ImportError:\n    raise",
        "name-gone 2",
    ),
    "an older version": (
        f"{VERSION}if Version(lib.__version__) < Version('2'):\n    new(1)\nelse:\n    new(1, 2)",
        "call 7",
    ),
    "hasattr": (
        "import lib.api\nif hasattr(lib.api, 'gone'):\n    lib.api.gone()\nelse:\n    lib.api.new()",
        "call 5",
    ),
    "an option of the program is no flag of an import": (
        f"import os\n{NEW}if os.environ.get('FAST'):\n    new()",
        "call 4",
    ),
}
BRANCHES_THAT_DO_NOT = {
    "a newer version": (
        f"{VERSION}if Version(lib.__version__) >= Version('2'):\n    new(1)\nelse:\n    new(1, 2)"
    ),
    "a constant made of the version": (
        f"from importlib.metadata import version\nfrom packaging.version import parse\n{NEW}"
        "IS_NEW = parse(version('lib')) >= parse('2')\nif IS_NEW:\n    new(1)\nelse:\n    new()"
    ),
    "hasattr and an early return": (
        "import lib.api\ndef f():\n    if not hasattr(lib.api, 'gone'):\n        return\n"
        "    lib.api.gone()"
    ),
    "a conjunction": "import lib.api\nhasattr(lib.api, 'gone') and lib.api.gone()",
    "inspect.signature": (
        f"import inspect\n{NEW}if 'b' in inspect.signature(new).parameters:\n    new(1, b=2)\n"
        "else:\n    new(1)"
    ),
    "the Python": f"import sys\n{NEW}if sys.version_info < (3, 8):\n    new()",
    "a version that nobody knows": f"import other\n{NEW}if other.__version__ > '1':\n    new()",
    "a flag of an import": f"try:\n    import lib.gone\n{FLAG}{NEW}if HAS:\n    new()",
    "the opposite of a flag of an import that succeeds": f"try:\n    {NEW}{FLAG}{LATER_GONE}",
    "a flag of an import that nobody can follow": f"try:\n    import other\n{FLAG}{LATER_GONE}",
    "except TypeError": f"{NEW}try:\n    new()\nexcept TypeError:\n    new(1)",
    "suppress": (
        "import contextlib\nwith contextlib.suppress(ImportError):\n    from lib.api import gone"
    ),
}


@cases(("caller", "expected"), BRANCHES_THAT_RUN)
def test_a_break_in_the_branch_that_runs_counts(caller: str, expected: str) -> None:
    assert breaks(f"{caller}\n", "def new(a): ...\n", "2.1.0") == [expected]


@cases("caller", BRANCHES_THAT_DO_NOT)
def test_a_break_in_a_branch_that_may_not_run_does_not(caller: str) -> None:
    assert breaks(f"{caller}\n", "def new(a): ...\n", "2.1.0") == []


def test_a_broad_except_hides_a_break_and_a_renamed_keyword_is_recognised() -> None:
    broad = "from lib.api import new\ntry:\n    new()\nexcept Exception:\n    pass\n"
    renamed = "from lib.api import f\nf(1, mq_timeout=2)\n"

    (hidden,) = judged(broad, {"lib/api.py": "def new(a): ...\n"}).breaks
    (found,) = judged(renamed, {"lib/api.py": "def f(a, queue_timeout): ...\n"}).breaks

    assert hidden.caught == "broadly"
    assert found.call == "f(1, queue_timeout=2)"


def test_a_file_that_is_no_python_is_named_and_one_without_a_known_place_judges_nothing() -> None:
    broken = judged("import lib\ndef broken(:\n", {})
    found = judged("import lib\nprint(1)\n", {"lib/api.py": ""})

    assert (list(broken.unread), broken.total) == (["app/use.py"], 0)
    assert found.resolved.get("calls", 0) == 0


OWN_CLASSES = {
    "super is bound to the base": (
        (
            "from lib.api import Base\nclass Own(Base):\n    def __init__(self, a):\n"
            "        super().__init__(a)\n"
        ),
        "class Base:\n    def __init__(self, a, b): ...\n",
        ["call 4"],
    ),
    "an attribute of self keeps the instance that a method puts there": (
        (
            "from lib.api import Base\nclass Own:\n    def __init__(self):\n        self.b = None\n"
            "    def start(self):\n        self.b = Base()\n    def go(self):\n        self.b.run(1)\n"
        ),
        "class Base:\n    def run(self): ...\n",
        ["call 8"],
    ),
    "a keyword of the name does not give a class the attribute": (
        (
            "from lib.api import A\nclass B(A):\n    def __init__(self, colour):\n"
            "        super().__init__(colour=colour)\n    def show(self):\n        return self.colour\n"
        ),
        "class A:\n    def __init__(self, **options): ...\n",
        ["attribute-gone 6"],
    ),
    "an attribute that another class of the caller has is not surely gone": (
        (
            "from lib.api import A\nclass Mixin:\n    colour = 1\nclass B(A):\n"
            "    def show(self):\n        return self.colour\n"
        ),
        "class A: ...\n",
        [],
    ),
}


@pytest.mark.parametrize(("caller", "callee", "expected"), OWN_CLASSES.values(), ids=OWN_CLASSES)
def test_classes_of_the_caller_are_known(caller: str, callee: str, expected: list[str]) -> None:
    assert breaks(caller, callee) == expected


def test_a_subclass_of_the_callee_that_takes_the_call_makes_it_undecided() -> None:
    callee = (
        "class Base:\n    def run(self): ...\nclass Sub(Base):\n    def run(self, a): ...\n"
        "def make() -> Base: ...\n"
    )

    assert breaks("from lib.api import make\nmake().run(1)\n", callee) == []
    assert breaks("from lib.api import make\nmake().run(1, 2)\n", callee) == ["call 2"]


def test_names_through_stars_and_relative_imports_are_known() -> None:
    callee = {
        "lib/__init__.py": "from .api import *\nfrom . import api as renamed\n",
        "lib/api.py": "__all__ = ['f']\ndef f(a): ...\ndef hidden(): ...\n",
    }

    found = judged("import lib\nlib.f()\nlib.renamed.f()\nlib.hidden\n", callee).breaks

    assert [(_kind(each), each.line) for each in found] == [
        ("call", 2),
        ("call", 3),
        ("attribute-gone", 4),
    ]


def test_a_lazy_module_is_known_by_what_it_tells_type_checkers() -> None:
    callee = {
        "lib/__init__.py": (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .api import f\n"
            "def __getattr__(name): ...\n"
        ),
        "lib/api.py": "def f(a): ...\n",
    }

    found = judged("from lib import f, other\nf()\n", callee)

    assert [each.line for each in found.breaks] == [2]


def test_names_that_lead_to_names_without_end_are_unknown_and_end() -> None:
    chain = "".join(f"x{number + 1} = x{number}\n" for number in range(3000))
    caller = f"from lib.api import f\nx0 = f\n{chain}x3000()\nf()\n"

    found = judged(caller, {"lib/api.py": "def f(a): ...\n"})

    assert found.breaks[-1].excerpt == "f()"


@pytest.mark.parametrize(
    ("callee", "use", "unknown"),
    [
        (
            "class A:\n    def __getattr__(self, name): ...\ndef make(x): return x\n",
            "A().colour\nmake(1).size",
            2,
        ),
        (
            (
                "from typing import TYPE_CHECKING\nclass A:\n    if TYPE_CHECKING:\n"
                "        def __getattr__(self, name: str) -> object: ...\nmake = A\n"
            ),
            "A().colour",
            1,
        ),
    ],
    ids=["makes names", "declares that it makes them"],
)
def test_an_attribute_that_nobody_can_judge_is_counted(callee: str, use: str, unknown: int) -> None:
    found = judged(f"from lib.api import A, make\n{use}\n", {"lib/api.py": callee})

    assert (found.unknown, found.breaks) == (unknown, [])


@pytest.mark.parametrize(
    ("use", "broken", "unknown"),
    [
        ('getattr(lib.api, "A")', [], 0),
        ('getattr(lib.api, "gone")', ["attribute-gone"], 0),
        ('getattr(lib.api, "gone", None)', [], 0),
        ("getattr(lib.api, name)", [], 1),
        ('importlib.import_module("lib.api")', [], 0),
        ('importlib.import_module("lib.gone")', ["module-gone"], 0),
        ('__import__("lib.gone")', ["module-gone"], 0),
        ('try:\n    __import__("lib.gone")\nexcept ImportError: pass', [], 0),
        ('importlib.import_module(f"lib.{name}")', [], 1),
        ('importlib.import_module("json")', [], 0),
        ('exec("from lib.api import A")', [], 1),
        ('exec("pass")', [], 0),
    ],
)
def test_what_is_named_by_a_text_is_judged_or_counted(
    use: str, broken: list[str], unknown: int
) -> None:
    caller = f"import importlib\nimport lib.api\nname = input()\n{use}\n"
    found = judged(caller, {"lib/api.py": "class A: ...\n"})

    assert [each.rule.partition("/")[2] for each in found.breaks] == broken
    assert found.unknown == unknown


BASE = "class Base:\n    def step(self, request, count): ...\n    def other(self): ...\n"
OWN = "from lib.api import Base\nclass Own(Base):\n    def step(self, request):\n        pass\n"

CALLS = {
    "through self in the base": ("", "class Base:\n    def run(self):\n        self.step(1, 2)\n    def step(self, a, b): ...\n", True),
    "through an annotated parameter": ("from lib.api import Base\ndef run(b: Base):\n    b.step(1, 2)\n", BASE, True),
    "through an attribute that a factory makes": (
        ("from lib.api import Base\ndef make() -> Base: ...\nclass Engine:\n    def __init__(self):\n"
        "        self.b = make()\n    def run(self):\n        self.b.step(1, 2)\n"), BASE, True),
    "with arguments it takes": ("from lib.api import Base\ndef run(b: Base):\n    b.step(1)\n", BASE, False),
    "on another class": ("class X:\n    def step(self, a, b): ...\ndef run(b: X):\n    b.step(1, 2)\n", BASE, False),
    "on an unknown receiver": ("def run(b):\n    b.step(1, 2)\n", BASE, False),
    "nowhere": ("", BASE, False),
}  # fmt: skip


@pytest.mark.parametrize(("engine", "base", "expected"), CALLS.values(), ids=CALLS)
def test_an_override_breaks_if_the_callee_calls_it_otherwise(
    engine: str, base: str, expected: bool
) -> None:
    found = judged(OWN, {"lib/api.py": base, "lib/engine.py": engine})

    assert [(_kind(each), each.line) for each in found.breaks] == [("override", 3)] * expected
    assert found.resolved["overrides"] == 1


ABSTRACT = "from abc import ABC, abstractmethod\nclass Base(ABC):\n    @abstractmethod\n    def new(self): ...\n"


@pytest.mark.parametrize(("use", "line", "is_error"), [("Own()\n", 4, True), ("", 2, False)])
def test_an_instance_of_a_class_with_an_abstract_method_is_an_error_and_the_class_a_warning(
    use: str, line: int, is_error: bool
) -> None:
    caller = f"from lib.api import Base\nclass Own(Base):\n    pass\n{use}"

    (found,) = judged(caller, {"lib/api.py": ABSTRACT}).breaks

    assert (_kind(found), found.line, found.is_error) == ("abstract", line, is_error)


@pytest.mark.parametrize(
    "caller",
    [
        "class Own(Base):\n    def new(self): ...\nOwn()\n",
        "class Mid(Base): ...\nclass Own(Mid):\n    def new(self): ...\nOwn()\n",
        "import x\nclass Own(x.Mixin, Base): ...\nOwn()\n",
    ],
    ids=["implemented", "implemented below", "perhaps by an unknown base"],
)
def test_an_implemented_method_is_none(caller: str) -> None:
    assert judged(f"from lib.api import Base\n{caller}", {"lib/api.py": ABSTRACT}).breaks == []


@pytest.mark.parametrize(("unread", "is_judged"), [(0, True), (1, False)])
def test_a_pair_with_a_file_that_names_the_other_and_cannot_be_parsed_was_not_judged(
    unread: int, is_judged: bool
) -> None:
    direction = DirectionFact(
        caller="a", callee="b", resolved={"calls": 3}, open_imports=0, unread=unread, breaks=()
    )

    assert was_judged(PairFact(first="a", second="b", directions=(direction,))) == is_judged
