# SPDX-License-Identifier: Apache-2.0
"""What `ci-doctor correctness localise` and `bisect` do with their options."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ci_doctor.commands.correctness_experiment import of_one_job
from ci_doctor.commands.documented import DEFAULT_DIRECTORY, load_configuration
from ci_doctor.commands.progress import show_experiment
from ci_doctor.commands.teller import Teller
from ci_doctor.correctness.evidence.resume import check_resumable
from ci_doctor.correctness.evidence.run_identity import RunIdentity, Setting, identify
from ci_doctor.correctness.localise.arm_settings import ArmPair, labels, pair_of
from ci_doctor.correctness.localise.bisection import GOOD, CommitSpace
from ci_doctor.correctness.localise.commits import (
    CommitRange,
    make_worktree,
    read_range,
    remove_worktree,
)
from ci_doctor.correctness.localise.noise import NoisySearch, SearchSpace
from ci_doctor.correctness.localise.search_jobs import BEGIN_ANEW, run_search_job
from ci_doctor.correctness.localise.search_places import (
    CHECKOUTS,
    CommitPlace,
    SettingPlace,
    filled,
)
from ci_doctor.correctness.localise.search_report import SearchWords, search_outcome
from ci_doctor.correctness.localise.searching import Place, SearchRun
from ci_doctor.correctness.localise.setting_search import SettingSpace
from ci_doctor.correctness.pace import command_line
from ci_doctor.correctness.planning import (
    ExperimentRequest,
    PreparedExperiment,
    parse_arm_variables,
    prepare,
    read_settings,
)
from ci_doctor.correctness.settings import BUILDKITE, Arm, Caches, CorrectnessSettings
from ci_doctor.errors import UsageError
from ci_doctor.load.canonical import digest
from ci_doctor.model.outcome import Outcome
from ci_doctor.session.session import Session
from ci_doctor.system.processes.interruption import Interruption

# poll(2) takes no more than 24 days.
_LONGEST_S = 14 * 24 * 3600.0


def run_localise(
    session: Session,
    *,
    config_path: Path | None,
    baseline_pins: str | None,
    candidate_pins: str | None,
    build: str | None,
    variables: tuple[str, ...],
    **options: Any,
) -> int:
    """The exit code. Raises UsageError and InfraError as the room does."""
    pins = {Arm.BASELINE: baseline_pins, Arm.CANDIDATE: candidate_pins}
    if len({path is None for path in (*pins.values(), build)}) > 1:
        raise UsageError(
            "--baseline-pins, --candidate-pins and --build belong together",
            hint="give all three, or none of them",
        )
    texts = {arm: _text(path) for arm, path in pins.items() if path is not None}
    checked = _checked(build, ("pins", "build"))
    search = _Search(session, config_path, parse_arm_variables(variables), **options)
    known = {"build": str(search.directory / "build")} if build else {}
    prepared = search.prepared(search.loaded, known)
    pair = pair_of(prepared.plan.arms, texts)
    more: dict[str, Setting] = {
        "search": "settings",
        "settings": digest([each.words for each in pair.settings]),
        "build": build,
    }
    space = SettingSpace(len(pair.settings), pair.pinned)
    place = SettingPlace(prepared.plan, pair, checked)

    listed = ", ".join(labels(pair, range(space.count)))
    note = f"{space.count} settings differ: {listed}"
    words = _of_settings(pair, search.resume_command)
    return search.run(prepared, space, place, words, more, note)


def _of_settings(pair: ArmPair, resume: str) -> SearchWords:
    count = len(pair.settings)

    def point_in_words(point: int) -> str:
        chosen = labels(pair, [at for at in range(count) if point >> at & 1])
        ends = {0: "the baseline", count: "the candidate"}
        return ends.get(len(chosen), " and ".join(chosen))

    def conclusion(names: Sequence[str]) -> str:
        verb = "makes" if len(names) == 1 else "together make"
        return f"{' and '.join(names)} {verb} the difference"

    return SearchWords(
        subject="settings",
        point=point_in_words,
        names=partial(labels, pair),
        conclusion=conclusion,
        # What differs in one thing: without the last one of them, and with it.
        commands=lambda answer: tuple(pair.shell(point) for point in reversed(answer.proof[:2])),
        resume=resume,
    )


def _of_commits(found: CommitRange, resume: str) -> SearchWords:
    def point_in_words(point: int) -> str:
        if point == GOOD:
            return f"{found.good[:12]} (good)"
        commit = found.commits[point]
        return f"{commit.id[:12]} {commit.subject}"

    def conclusion(names: Sequence[str]) -> str:
        if len(names) == 1:
            return f"the first bad commit is {names[0]}"
        return f"the first bad commit is one of {len(names)} that no start tells apart: {', '.join(names)}"

    return SearchWords(
        subject="commits",
        point=point_in_words,
        names=lambda names: tuple(map(point_in_words, names)),
        conclusion=conclusion,
        commands=lambda answer: tuple(
            f"git show {found.commits[each].id}" for each in answer.names
        ),
        resume=resume,
    )


def run_bisect(
    session: Session,
    *,
    config_path: Path | None,
    commits: str,
    server: str | None,
    build: str | None,
    **options: Any,
) -> int:
    """The exit code. Raises UsageError and InfraError as the room does."""
    checked = _checked(build, ("build", "commit"))
    found = read_range(Path.cwd(), commits)
    search = _Search(
        session, config_path, {arm: {} for arm in Arm}, baseline=server, candidate=server, **options
    )
    candidate = search.settings.candidate
    if candidate is None or not (candidate.command or candidate.services):
        raise UsageError(
            "nothing says how a checkout is started",
            hint="give --command 'CMD … {port}', or command = … in [correctness.candidate]",
        )
    search.settings = replace(search.settings, baseline=candidate)
    below = _below(search.loaded.directory, found.repository)
    first = search.directory / CHECKOUTS / found.bad[:12]
    make_worktree(found.repository, found.bad, first)
    try:
        # What the command names is looked for in the bad commit, and not in the user's checkout.
        loaded = replace(search.loaded, path=first / below / "ci-doctor.toml")
        known = {"build": str(first), "commit": found.bad}
        prepared = search.prepared(loaded, known)
    except UsageError:
        remove_worktree(found.repository, first)
        raise
    space = CommitSpace(found.commits)
    place = CommitPlace(prepared.plan, found, checked, below)

    more: dict[str, Setting] = {
        "search": "commits",
        "good": found.good,
        "bad": found.bad,
        "build": build,
    }
    note = f"{len(found.commits)} commits may be the first bad one"
    words = _of_commits(found, search.resume_command)
    return search.run(prepared, space, place, words, more, note, clean=place.remove_all)


class _Search:
    """What both commands do alike."""

    def __init__(
        self,
        session: Session,
        config_path: Path | None,
        variables: Mapping[Arm, Mapping[str, str]],
        *,
        resume: str | None,
        only: tuple[str, ...],
        most: int,
        confidence: float,
        **flags: Any,
    ) -> None:
        self.session = session
        self.only = only
        self.is_resumed = resume is not None
        self._most = most
        self._confidence = confidence
        if resume is not None:
            session.protect()
            session.named_directory = Path(resume)
        directory = session.claim(DEFAULT_DIRECTORY, clear=not self.is_resumed)
        self.directory = (directory or DEFAULT_DIRECTORY).absolute()
        self.loaded = load_configuration(session, config_path)
        settings = read_settings(self.loaded, os.environ, flags, variables)
        # Baselines of other builds are none of these, and the control changes no answer.
        caches = settings.caches if settings.caches is Caches.AS_IS else Caches.FRESH
        self.settings: CorrectnessSettings = replace(
            settings, archive=None, control=False, localise=False, caches=caches
        )
        self.is_fanned_out = self.settings.fan_out == BUILDKITE
        if self.is_fanned_out:
            self.settings = of_one_job(self.settings, is_whole=not self.is_resumed)

    @property
    def resume_command(self) -> str:
        """The command line that goes on with this search."""
        place = os.path.relpath(self.directory)
        return command_line(self.session.invocation.argv, ["--resume", place])

    def prepared(self, loaded: Any, known: Mapping[str, str]) -> PreparedExperiment:
        """All that is wrong, before anything is started. Raises UsageError."""
        invocation = self.session.invocation
        request = ExperimentRequest(
            settings=self.settings,
            config=loaded,
            only=self.only,
            resume=self.is_resumed,
            argv=invocation.argv,
            began=invocation.started,
            placeholders=known,
        )
        prepared = prepare(request, self.directory, os.environ)
        if not prepared.plan.may_take_longer:
            return prepared
        # Nobody set an end, and a search takes as many starts as it takes.
        return prepared.until(prepared.plan.started + _LONGEST_S)

    def run(
        self,
        prepared: PreparedExperiment,
        space: SearchSpace,
        place: Place,
        words: SearchWords,
        more: Mapping[str, Setting],
        note: str,
        clean: Callable[[], None] = lambda: None,
    ) -> int:
        """Make the search, and deliver its report."""
        session, plan = self.session, prepared.plan
        identity: RunIdentity = identify(plan, more)
        if self.is_fanned_out:
            # Each job decides or asks by them.
            more = {**more, "most": self._most, "confidence": self._confidence}
            identity = identify(plan, more)
            words = replace(words, resume=BEGIN_ANEW)
        if self.is_resumed:
            check_resumable(plan.directory, identity)
            session.accept()
        session.hide(*prepared.service_environments())

        def new_search() -> NoisySearch:
            return NoisySearch(space, confidence=self._confidence, most=self._most)

        interruption = Interruption()
        # The signals stay handled until the report is out: none may take it away.
        with interruption.handling():
            with Teller(prepared.redactor, group="ci-doctor correctness: starts") as tell:
                tell.say(note)
                show = partial(show_experiment, tell)
                run = SearchRun(plan, identity, new_search, prepared.redactor, show)

                def conclude() -> Outcome:
                    received = interruption.received
                    return search_outcome(
                        run.replayed,
                        run.evidence,
                        plan,
                        words,
                        stopped=run.stopped,
                        signal=received.name if received is not None else None,
                    )

                try:
                    if self.is_fanned_out:
                        of_run = replace(prepared, identity=identity)
                        outcome = run_search_job(
                            of_run, run, place, os.environ, interruption, conclude
                        )
                    else:
                        run.make(place, interruption, is_resumed=self.is_resumed)
                        outcome = conclude()
                finally:
                    # What is built stays only for a search that goes on.
                    if self.is_fanned_out or not run.stopped:
                        clean()
            return session.finish(outcome, on_stdout=True)


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error


def _checked(build: str | None, names: tuple[str, ...]) -> str | None:
    """The build command. Raises UsageError if its quotes do not match."""
    if build is not None:
        try:
            filled(build, dict.fromkeys(names, ""))
        except ValueError as error:
            raise UsageError(f"--build {build}: {error}") from error
    return build


def _below(directory: Path, repository: Path) -> str:
    """Where the configuration lies in the repository."""
    try:
        return str(directory.resolve().relative_to(repository.resolve()))
    except ValueError:
        return "."
