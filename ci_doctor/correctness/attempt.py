# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: one start of an arm, with its own directories, from its launch over its answers to its stop."""

import asyncio
import contextlib
import functools
import shutil
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.asking import (
    PassPlan,
    ProofCheck,
    collect,
    passes_of,
    reset,
    send_control,
)
from ci_doctor.correctness.devices import placed, placeholders, variables
from ci_doctor.correctness.evidence.samples import Sample
from ci_doctor.correctness.results import StartResult, Tally
from ci_doctor.correctness.sensitivity import measure
from ci_doctor.correctness.settings import ArmPlan, Caches, CopiedCache, ExperimentPlan, Rewrite
from ci_doctor.environment.cache_table import TABLE, shared_downloads
from ci_doctor.errors import InfraError
from ci_doctor.identity.loaded import loaded
from ci_doctor.load.sending import Sender
from ci_doctor.model.facts.correctness import AlteredAnswer, ControlOutcome
from ci_doctor.model.facts.launch import FailureKind, ServiceFailure, StopResult
from ci_doctor.services.busy_timeout import all_waits, before_death
from ci_doctor.services.group import start_group
from ci_doctor.services.instance import RunningService, ServiceEvent, Starts
from ci_doctor.services.running import RunningGroup
from ci_doctor.services.spec import LaunchContext, start_order
from ci_doctor.system import clock
from ci_doctor.system.files.access import make_directory, own_directory


def fresh_caches(directory: Path, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables that put every compile cache of a start, and any other, into `directory`.

    It gets an empty subdirectory for each, because some libraries use theirs only if it exists.
    Given the start's `environ`, what is downloaded stays where it is, because a start without a
    network would fail: weights, packages, and FlashInfer's kernels beside those that it compiles.
    Raises OSError.
    """
    variables = {row.variable: str(directory.absolute() / row.directory) for row in TABLE}
    variables["XDG_CACHE_HOME"] = str(directory.absolute() / "other")
    for path in variables.values():
        make_directory(Path(path))
    environ = environ or {}
    variables |= shared_downloads(environ)
    base = environ.get("FLASHINFER_WORKSPACE_BASE") or environ.get("HOME")
    if base and not environ.get("FLASHINFER_CUBIN_DIR"):
        variables["FLASHINFER_CUBIN_DIR"] = str(Path(base) / ".cache" / "flashinfer" / "cubins")
    return variables


# If a start was not ready so shortly before its share of the budget ended, the budget is the cause.
_CLOSE_S = 0.5
# The time in which a server must answer its probe again after the last answer.
_STILL_READY_S = 5.0


class ExperimentProgress(Struct, frozen=True, kw_only=True):
    """What happened in a start: a service's event, or one more answer or failure of `requests`.

    Or `note`: a sentence on the whole.
    """

    start: str = ""
    event: ServiceEvent | None = None
    answers: int = 0
    failed: int = 0
    requests: int = 0
    note: str = ""


class StartTools(Struct, frozen=True, kw_only=True):
    """What a start needs besides the plan.

    `keep` stores a sample, `tell` receives progress. `caches` are the compile caches by variable.
    `control`: the start gets a request with a
    changed prompt. `copies`: so many requests with one other word, at most. `passes` are sent in place of the plan's, if there are any. `devices` is the
    start's CUDA_VISIBLE_DEVICES, if it has one of its own. `turn` is awaited before the first
    request, if other starts run at once.
    """

    keep: Callable[[Sample], None]
    tell: Callable[[ExperimentProgress], None]
    caches: Mapping[str, str] = {}
    control: bool = False
    copies: int = 0
    passes: tuple[PassPlan, ...] = ()
    devices: str = ""
    turn: Callable[[], Awaitable[None]] | None = None


class StartAttempt:
    """A start under way. It is `whole` once its end is its own, not the budget's or a signal's."""

    _control: ControlOutcome | None = None
    _altered: tuple[AlteredAnswer, ...] = ()

    def __init__(self, plan: ExperimentPlan, tally: Tally, tools: StartTools) -> None:
        self.plan = plan
        self.tally = tally
        self.tools = tools
        self.began = clock.now()
        self.whole = False
        self.failure: ServiceFailure | None = None
        self._starts = Starts(start_order(self._arm.specs, self._arm.names))
        self.facts: Mapping[str, str] = {}
        self._group: RunningGroup | None = None
        self._stopped: StopResult | None = None
        self._proof: ProofCheck | None = None
        self._passes = tools.passes or passes_of(plan)
        # Seconds in which it was ready, and another start's turn.
        self._waited_s = 0.0

    async def run(self) -> None:
        """Start, send everything, stop. However this ends, `result` holds what came of it."""
        launched = await self._launch()
        if isinstance(launched, ServiceFailure):
            self.failure = launched
            # The budget may have left the service no time, rather than its own start_timeout.
            is_late = clock.now() >= self._start_deadline - _CLOSE_S
            self.whole = not (is_late and launched.kind is FailureKind.NOT_READY)
            self._stopped = launched.stopped
            return
        self._group = launched
        try:
            await self._await_turn(launched)
            self.failure = await self._requests(launched)
            self.whole = True
        finally:
            # Also after a signal or at the deadline: no process may outlive its start.
            self._stopped = await launched.stop(grace_s=self.plan.grace_s)

    async def run_in_time(self) -> None:
        """As `run`, until the plan's deadline. What that ends is not `whole`, and its result says so."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.plan.deadline - clock.now()):
                await self.run()

    def result(self, *, warm_up: bool = False) -> StartResult:
        """What came of it, with no process left: an orderly stop that was cut off ends here."""
        stopped = self._stopped or StopResult(duration_s=0.0)
        if self._group:
            now = self._group.kill_now()
            # All that was killed, with what the orderly stop alone could see.
            stopped = replace(
                stopped, killed=now.killed, survivors=now.survivors, left_behind=now.left_behind
            )
        failure = self.failure
        is_outside = failure is not None and failure.kind is FailureKind.OUTSIDE
        # A service that ran left a log, and the log is its own word. One that never started has the
        # machine's.
        is_claimed = is_outside and failure is not None and failure.log is not None
        tally = self.tally
        start = tally.start(
            failed=failure is not None,
            outside=is_outside,
            claimed=is_claimed,
            of_job=failure is not None and failure.is_of_job,
            control=self._control,
            devices=self.tools.devices,
        )
        return StartResult(
            start=start,
            failure=failure,
            duration_s=clock.now() - self.began - self._waited_s,
            services=self._starts.runs,
            stopped=stopped,
            digests=tally.digests,
            errors=tally.errors,
            samples=tally.count,
            facts=self.facts,
            cut_short=not self.whole,
            warm_up=warm_up,
            proof=self._proof.readings if self._proof else (),
            altered=self._altered,
        )

    @property
    def _start_deadline(self) -> float:
        """The time at which a group must be ready: it leaves time for an orderly stop."""
        return self.plan.deadline - self.plan.grace_s

    @property
    def _arm(self) -> ArmPlan:
        return self.plan.arms[self.tally.arm]

    async def _launch(self) -> RunningGroup | ServiceFailure:
        tally = self.tally
        context = LaunchContext(
            environment={
                **self.plan.environment,
                **self.tools.caches,
                **variables(self.tools.devices),
            },
            directory=self.plan.services_directory,
            log_directory=self.plan.directory / "logs" / tally.name,
            placeholders={
                "arm": tally.arm.value,
                "start": str(tally.number),
                **placeholders(self.tools.devices),
                **self.plan.placeholders,
            },
            # A start_timeout may be longer than the budget.
            limit_s=self._start_deadline - clock.now(),
            grace_s=self.plan.grace_s,
        )

        def on_event(event: ServiceEvent) -> None:
            self._starts.add(event)
            self.tools.tell(ExperimentProgress(start=tally.name, event=event))

        specs = placed(self._arm.specs, self.tools.devices)
        return await start_group(specs, self._arm.names, context, on_event)

    async def _await_turn(self, group: RunningGroup) -> None:
        """Returns when it is this start's turn, or one of its services has died."""
        if self.tools.turn is None:
            return
        began = clock.now()
        waiting = asyncio.ensure_future(self.tools.turn())
        try:
            group.death.add_done_callback(lambda _: waiting.cancel())
            await asyncio.wait({waiting})
        finally:
            self._waited_s = clock.now() - began
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        # An error of the turn itself is ours, and no failure of the server.
        if not group.death.done():
            waiting.result()

    async def _requests(self, group: RunningGroup) -> ServiceFailure | None:
        """Send everything; the first death among the services ends it."""
        (sending,) = await before_death(group.death, self._send(group))
        return group.death.result() if group.death.done() else sending.result()

    async def _send(self, group: RunningGroup) -> ServiceFailure | None:
        arm = self._arm
        tally = self.tally
        service = group.services[arm.names[-1]]
        self._proof = proof = ProofCheck(arm.proof, group, service.name)
        # It stays if a death or the budget ends this before the proof is checked.
        tally.proof_missing = ("the start was cut short",) if arm.proof else ()
        await proof.begin()
        sender = Sender(
            base_url=service.base_url,
            concurrency=self.plan.concurrency,
            timeout_s=self.plan.request_timeout_s,
            # A server that throttles is slow and not wrong; such requests are counted.
            comes_again=True,
            waits=all_waits(group.living_pids),
        )
        not_reset = await self._send_passes(sender)
        # While the processes live: /proc shows what they have loaded.
        self.facts = loaded(
            sorted(
                {
                    process.pid
                    for each in group.services.values()
                    for process in group.tree.below(each.pid)
                }
            )
        )
        tally.proof_missing = (*not_reset, *await proof.unmet())
        # A server that ends with its last answer is not always dead yet when that arrives.
        reason = await group.still_ready(service.name, _STILL_READY_S)
        if reason is not None:
            return _no_longer_ready(group, service, reason)
        # Last: it must not help to meet a proof, and a server that ends with it has answered all.
        if self.tools.control:
            self._control = await send_control(sender, self.plan.requests, tally, self.tools.keep)
        if self.tools.copies:
            self._altered = await measure(
                sender, self.plan.requests, tally, self.tools.keep, self.tools.copies
            )
        return None

    async def _send_passes(self, sender: Sender) -> tuple[str, ...]:
        """Send the requests of every pass; returns a sentence for each missing reset."""
        not_reset: list[str] = []
        for number, each in enumerate(self._passes, start=1):
            if each.resets and self._arm.reset:
                not_reset.extend(await reset(sender, self._arm.reset))
            await asyncio.sleep(each.pause_s)
            arm, start = self.tally.arm.value, self.tally.number
            sample = functools.partial(Sample, arm=arm, start=start, pass_=number)
            paced = replace(sender, concurrency=each.concurrency)
            await collect(paced, each.requests, sample, self._keep)
        return tuple(not_reset)

    def _keep(self, sample: Sample) -> None:
        self.tools.keep(sample)
        self.tally.add(sample)
        total = sum(len(each.requests) for each in self._passes)
        self.tools.tell(
            ExperimentProgress(
                start=self.tally.name,
                answers=self.tally.count - self.tally.unanswered,
                failed=self.tally.unanswered,
                requests=total,
            )
        )


def _no_longer_ready(group: RunningGroup, service: RunningService, reason: str) -> ServiceFailure:
    now = clock.now()
    return ServiceFailure(
        kind=FailureKind.NOT_READY,
        service=service.name,
        message=f"{service.name} was ready, and is so no more after the last answer: {reason}",
        log=str(service.log),
        was_ready=True,
        at=now,
        duration_s=group.instances[service.name].subject(now).duration_s,
    )


# The directory of a run's compile caches, in its report directory.
CACHES = ".ci-doctor-caches"


def copy_restored(trees: Iterable[CopiedCache], variables: Mapping[str, str]) -> None:
    """Copy each tree to where `variables` put its cache. Times stay. Raises OSError."""
    for each in trees:
        root = Path(variables[each.variable], each.subdirectory)
        shutil.copytree(each.tree, root, dirs_exist_ok=True)
        change = each.rewrite(str(root))
        if change is not None:
            _rewrite(root, change)


def _rewrite(root: Path, change: Rewrite) -> None:
    for path in root.rglob("*.json"):
        before = path.read_bytes()
        after = change(path.relative_to(root).as_posix(), before)
        if after != before:
            path.write_bytes(after)


@contextmanager
def start_tools(
    plan: ExperimentPlan,
    caches: Path,
    keep: Callable[[Sample], None],
    tell: Callable[[ExperimentProgress], None],
    devices: str = "",
) -> Iterator[StartTools]:
    """The tools of a start, with its TMPDIR, which is removed at the end.

    What it computes and keeps goes into the directory `caches`; it runs on `devices`. If caches are used as they are,
    nothing is the start's own. Raises InfraError if a directory cannot be made.
    """
    environment = plan.environment
    if plan.caches is Caches.AS_IS:
        yield StartTools(keep=keep, tell=tell, devices=devices)
        return
    with ExitStack() as stack:
        try:
            variables = fresh_caches(caches, environment)
            copy_restored(plan.restored, variables)
            # Not below `caches`: the path of a socket has 107 characters at most.
            variables["TMPDIR"] = stack.enter_context(own_directory("start"))
        except OSError as error:
            raise InfraError(
                f"cannot make {error.filename or caches}: {error.strerror}",
                hint="free some disk space",
            ) from error
        yield StartTools(keep=keep, tell=tell, caches=variables, devices=devices)
