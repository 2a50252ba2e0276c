# SPDX-License-Identifier: Apache-2.0
"""Where an import can stand, and which rule ends a hazard."""

from ci_doctor.imports.hazards import find_hazards
from ci_doctor.imports.remedy import remedy
from ci_doctor.model.facts.import_race import Remedy
from tests.unit.imports.traces import Trace, only_hazard, played


def of_thread_started_in(module: str, name: str = "lazy", *names: str) -> Remedy:
    trace = Trace()
    trace.background(module)
    trace.load(1, name, replaced=True)
    trace.ask(0, name, *names)
    return remedy(find_hazards(trace.process()).hazards[0])


def test_the_module_that_starts_the_thread_is_the_trigger() -> None:
    advice = of_thread_started_in("app.core", "lazy", "Thing", "Other")
    assert advice.rule is not None
    assert advice.rule == "app.core=lazy:Thing,Other"
    assert "`ci-doctor preload install --rule app.core=lazy:Thing,Other`" in advice.text
    assert "`ci-doctor run --preload app.core=lazy:Thing,Other -- CMD`" in advice.text
    assert advice.move is None


def test_a_module_run_with_m_is_a_trigger_by_its_real_name() -> None:
    advice = of_thread_started_in("__main__:app.cli")
    assert advice.rule is not None
    assert advice.rule == "app.cli=lazy"


def test_a_script_gets_an_import_to_move() -> None:
    advice = of_thread_started_in("__main__", "lazy", "Thing")
    assert advice.rule is None
    assert (
        advice.move
        == "write `from lazy import Thing` in app.py before line 5, which starts the thread"
    )
    assert advice.text == advice.move


def test_a_module_under_the_trigger_cannot_be_preloaded_before_it() -> None:
    advice = of_thread_started_in("lazy", "lazy.sub")
    assert advice.rule is None
    assert advice.move == "write `import lazy.sub` in app.py before line 5, which starts the thread"


def test_a_star_is_no_attribute() -> None:
    advice = of_thread_started_in("app", "lazy", "*")
    assert advice.rule is not None
    assert advice.rule == "app=lazy"


def test_of_a_submodule_order_the_package_is_loaded_first() -> None:
    loads = "1 ask pkg; 1 begin pkg; 1 ask pkg.sub name; 1 begin pkg.sub; 1 end; 1 end"
    advice = remedy(only_hazard(played(f"thread app; {loads}; 0 ask pkg.sub name")))
    assert advice.rule is not None
    assert advice.rule == "app=pkg;pkg.sub:name"
    assert "'app=pkg;pkg.sub:name'" in advice.text


def test_a_failed_import_is_not_cured_by_a_preload() -> None:
    advice = remedy(only_hazard(played("thread app; 1 load broken failed; 0 ask broken")))
    assert advice.rule is None
    assert advice.move is not None
    assert "import broken" in advice.move
