# SPDX-License-Identifier: Apache-2.0
"""The chain of statements that leads to an import."""

from tests.unit.imports.traces import Trace, only_hazard


def test_the_chain_leads_from_the_outermost_statement_to_the_import() -> None:
    trace = Trace()
    trace.background()
    trace.ask(1, "outer", line=3)
    trace.begin(1, "outer")
    trace.ask(1, "inner", line=5)
    trace.begin(1, "inner")
    trace.ask(1, "lazy", line=7)
    trace.begin(1, "lazy")
    for is_lazy in (True, False, False):
        trace.end(1, replaced=is_lazy)
    trace.ask(0, "lazy", "Thing", line=9)
    hazard = only_hazard(trace)
    assert [(site.file, site.line) for site in hazard.first.chain] == [
        ("app.py", 3),
        ("outer.py", 5),
        ("inner.py", 7),
    ]
    assert [(site.file, site.line) for site in hazard.second.chain] == [("app.py", 9)]
