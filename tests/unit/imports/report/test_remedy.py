# SPDX-License-Identifier: Apache-2.0
from ci_doctor.imports.analyse.hazards import find_hazards
from ci_doctor.imports.report.remedy import Remedy
from ci_doctor.preload.preload_rule import format_rule
from tests.unit.imports.traces import Trace


def of_thread_started_in(module: str, name: str = "lazy", *names: str) -> Remedy:
    trace = Trace()
    trace.background(module)
    trace.load(1, name, replaced=True)
    trace.ask(0, name, *names)
    return find_hazards(trace.process()).hazards[0].remedy


def test_the_module_that_starts_the_thread_is_the_trigger() -> None:
    remedy = of_thread_started_in("app.core", "lazy", "Thing", "Other")
    assert remedy.rule is not None
    assert format_rule(remedy.rule) == "app.core=lazy:Thing,Other"
    assert "`ci-doctor preload install --rule app.core=lazy:Thing,Other`" in remedy.text
    assert "`ci-doctor run --preload app.core=lazy:Thing,Other -- CMD`" in remedy.text
    assert remedy.move is None


def test_a_module_run_with_m_is_a_trigger_by_its_real_name() -> None:
    remedy = of_thread_started_in("__main__:app.cli")
    assert remedy.rule is not None
    assert remedy.rule.trigger == "app.cli"


def test_a_script_gets_an_import_to_move() -> None:
    remedy = of_thread_started_in("__main__", "lazy", "Thing")
    assert remedy.rule is None
    assert (
        remedy.move
        == "write `from lazy import Thing` at the top of app.py, before line 5 starts the thread"
    )
    assert remedy.text == remedy.move


def test_a_module_under_the_trigger_cannot_be_preloaded_before_it() -> None:
    remedy = of_thread_started_in("lazy", "lazy.sub")
    assert remedy.rule is None
    assert (
        remedy.move
        == "write `import lazy.sub` at the top of app.py, before line 5 starts the thread"
    )


def test_a_star_is_no_attribute() -> None:
    remedy = of_thread_started_in("app", "lazy", "*")
    assert remedy.rule is not None
    assert format_rule(remedy.rule) == "app=lazy"


def test_of_a_submodule_order_the_package_is_loaded_first() -> None:
    trace = Trace()
    trace.background("app")
    trace.ask(1, "pkg")
    trace.begin(1, "pkg")
    trace.ask(1, "pkg.sub", "name")
    trace.begin(1, "pkg.sub")
    trace.end(1)
    trace.end(1)
    trace.ask(0, "pkg.sub", "name")
    remedy = find_hazards(trace.process()).hazards[0].remedy
    assert remedy.rule is not None
    assert format_rule(remedy.rule) == "app=pkg;pkg.sub:name"
    assert "'app=pkg;pkg.sub:name'" in remedy.text


def test_a_failed_import_is_not_cured_by_a_preload() -> None:
    trace = Trace()
    trace.background("app")
    trace.load(1, "broken", status="failed")
    trace.ask(0, "broken")
    remedy = find_hazards(trace.process()).hazards[0].remedy
    assert remedy.rule is None
    assert remedy.move is not None
    assert "import broken" in remedy.move
