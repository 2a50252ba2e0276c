# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and files: a launch from its request to its outcome."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from ci_doctor.model.outcome import Outcome
from ci_doctor.services.check import check_services
from ci_doctor.services.events import EventLog
from ci_doctor.services.launch.client import check_words, problem
from ci_doctor.services.launch.launch import launch
from ci_doctor.services.launch.plan import LaunchPlan, LaunchRequest
from ci_doctor.services.launch.report import outcome_of, refused
from ci_doctor.services.outcome import ServiceEvent
from ci_doctor.services.port_names import port_names
from ci_doctor.services.running import RunningGroup
from ci_doctor.services.script_check import check_scripts
from ci_doctor.services.spec import LaunchContext
from ci_doctor.system.processes.interruption import Interruption
from ci_doctor.system.secrets.log_files import redact_files
from ci_doctor.system.secrets.redaction import Redactor


def make_plan(request: LaunchRequest) -> LaunchPlan:
    """Check everything before anything is started. Raises UsageError for what cannot work."""
    context = LaunchContext(
        environment=request.environment,
        directory=request.services_directory.absolute(),
        log_directory=request.directory.absolute() / "logs",
        limit_s=request.limit_s,
    )
    order = check_services(request.specs, request.names, context)
    check_scripts(request.specs, order, context)
    further = port_names(request.specs, order)[len(order) :]
    check_words(request.client, order, further)
    return LaunchPlan(request=request, order=order, context=context)


def client_problem(request: LaunchRequest) -> Outcome | None:
    """Why the client cannot be run, as a shell would report it; None if it can."""
    if not request.client:
        return None
    directory = request.client_directory.absolute()
    refusal = problem(request.client[0], request.environment, directory)
    if refusal is None:
        return None
    status, message = refusal
    return refused(status, message)


def run(
    plan: LaunchPlan,
    *,
    redactor: Redactor,
    interruption: Interruption | None = None,
    on_event: Callable[[ServiceEvent], None] = lambda _: None,
    on_ready: Callable[[RunningGroup], None] = lambda _: None,
    on_warning: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Start the services, run the client under them, stop everything, and judge.

    No process is left, however it ends. Logs lie in the `logs` of the request's `directory`,
    without the secrets that `redactor` knows. `interruption` is handling signals already; without
    one, signals are handled here. `on_event` gets each event of a service, `on_ready` the group
    once all are ready. Raises UsageError and InfraError as `start_group`.
    """
    # Before the services: minutes of loading a model, and then no client to use it.
    unable = client_problem(plan.request)
    if unable is not None:
        return unable
    logs: set[Path] = set()

    def note_log(event: ServiceEvent) -> None:
        if event.log is not None:
            logs.add(Path(event.log))

    with contextlib.ExitStack() as stack:
        if interruption is None:
            interruption = Interruption()
            stack.enter_context(interruption.handling())
        with _listeners(plan.request, redactor, on_warning, note_log, on_event) as listener:
            try:
                launched = launch(plan, interruption, listener, on_ready)
            finally:  # whatever has ended it
                for warning in redact_files(logs, redactor):
                    on_warning(warning)
    directory = plan.request.directory.absolute()
    return outcome_of(launched, directory=directory, cwd=Path.cwd(), events=plan.request.events)


@contextlib.contextmanager
def _listeners(
    request: LaunchRequest,
    redactor: Redactor,
    on_warning: Callable[[str], None],
    *listeners: Callable[[ServiceEvent], None],
) -> Iterator[Callable[[ServiceEvent], None]]:
    """Passes each event to the file of events, if there is one, and to `listeners`."""
    with contextlib.ExitStack() as stack:
        everybody = list(listeners)
        if request.events is not None:
            # First, so that an event is on disk before anybody acts on it.
            everybody.insert(0, stack.enter_context(EventLog(request.events, redactor, on_warning)))

        def pass_on(event: ServiceEvent) -> None:
            for listener in everybody:
                listener(event)

        yield pass_on
