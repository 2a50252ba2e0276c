"""Whose a process is."""

from collections.abc import Mapping

from ci_doctor.checks.leftovers.standing import ProcessStanding, Surroundings, standing_of
from ci_doctor.checks.processes import RunningProcess
from ci_doctor.system.processes.process_table import Kin

ROWS = [
    (1, 0, "systemd"),
    (10, 1, "buildkite-agent"),
    (11, 10, "buildkite-agent"),  # runs our job
    (12, 11, "bash"),
    (13, 12, "ci-doctor"),
    (14, 12, "vllm"),  # of our job
    (21, 10, "buildkite-agent"),  # runs another job
    (22, 21, "bash"),
    (23, 22, "vllm"),
    (31, 1, "vllm"),  # an orphan
    (40, 1, "tmux"),
    (41, 40, "vllm"),  # somebody's
    (51, 999, "vllm"),  # of a parent that /proc hides
]


def process(
    pid: int, parent: int, name: str, *, group: int = 0, session: int = 0
) -> RunningProcess:
    kin = Kin(pid=pid, parent=parent, started=0, state="S", threads=1, name=name)
    return RunningProcess(
        kin=kin, group=group or pid, session=session or pid, uid=0, words=(name,), age_s=1.0
    )


TABLE = {pid: process(pid, parent, name) for pid, parent, name in ROWS}


def standing(
    pid: int,
    job: str | None = None,
    *,
    own_job: str | None = "ours",
    sees_agents: bool = True,
    managed: frozenset[int] = frozenset(),
) -> ProcessStanding:
    around = Surroundings(
        pid=13,
        job=own_job,
        running_jobs=frozenset({"ours", "running"}) if sees_agents else frozenset(),
        sees_agents=sees_agents,
        jobs={},
        is_managed=lambda pid: pid in managed,
    )
    return standing_of(TABLE[pid], job, around, TABLE)


def alone(jobs: Mapping[int, str | None] | None = None, job: str | None = None) -> Surroundings:
    """No agent is to be seen."""
    return Surroundings(
        pid=13,
        job=job,
        running_jobs=frozenset(),
        sees_agents=False,
        jobs=jobs or {},
        is_managed=lambda _: False,
    )


def test_a_process_of_our_job_is_ours() -> None:
    assert standing(31, "ours") is ProcessStanding.OURS
    assert standing(14, None) is ProcessStanding.OURS


def test_what_descends_from_our_agent_alone_is_not_ours() -> None:
    assert standing(23, None) is ProcessStanding.OTHERS
    assert standing(23, "running") is ProcessStanding.OTHERS


def test_an_orphan_is_left() -> None:
    assert standing(31, None) is ProcessStanding.STALE
    assert standing(31, "earlier") is ProcessStanding.STALE
    assert standing(31, None, own_job=None) is ProcessStanding.STALE
    assert standing(51, None) is ProcessStanding.STALE


def test_an_orphan_of_a_job_that_an_agent_runs_is_its() -> None:
    assert standing(31, "running") is ProcessStanding.OTHERS


def test_a_job_that_no_agent_runs_has_left_all_its_processes() -> None:
    assert standing(41, "earlier") is ProcessStanding.STALE


def test_without_an_agent_to_be_seen_nobody_knows_whether_a_job_has_ended() -> None:
    assert standing(41, "earlier", sees_agents=False) is ProcessStanding.UNKNOWN


def test_a_service_of_the_machine_or_a_container_is_not_left() -> None:
    managed = frozenset({31})

    assert standing(31, None, managed=managed) is ProcessStanding.MANAGED
    assert standing(31, "earlier", managed=managed) is ProcessStanding.MANAGED


def test_somebodys_server_is_nobodys_business() -> None:
    assert standing(41, None) is ProcessStanding.UNKNOWN


def test_a_circle_of_parents_ends() -> None:
    table = {5: process(5, 6, "a"), 6: process(6, 5, "vllm"), 13: process(13, 13, "b")}
    around = alone()

    assert standing_of(table[6], None, around, table) is ProcessStanding.UNKNOWN


def in_container(group: int, session: int) -> ProcessStanding:
    """The standing of a child of a first process that is no init."""
    rows = [process(1, 0, "job.sh"), process(13, 1, "ci-doctor", session=13)]
    server = process(31, 1, "vllm", group=group, session=session)
    table = {each.pid: each for each in (*rows, server)}
    around = alone()
    return standing_of(server, None, around, table)


def test_below_a_first_process_that_is_no_init_an_orphan_has_lost_the_leader_of_its_group() -> None:
    assert in_container(group=29, session=29) is ProcessStanding.STALE
    assert in_container(group=1, session=1) is ProcessStanding.UNKNOWN


def test_an_orphan_of_our_own_session_is_ours() -> None:
    assert in_container(group=29, session=13) is ProcessStanding.OURS


def below_bash(jobs: dict[int, str | None]) -> tuple[ProcessStanding, ProcessStanding]:
    """The standings of a leader of its own session below a first process `bash`, and of its worker."""
    rows = [(1, 0, "bash"), (13, 1, "ci-doctor"), (31, 1, "vllm"), (32, 31, "vllm")]
    table = {pid: process(pid, parent, name) for pid, parent, name in rows}
    around = alone(jobs, "ours")
    server, worker = (standing_of(table[pid], jobs.get(pid), around, table) for pid in (31, 32))
    return server, worker


def test_a_server_of_another_job_that_the_first_process_cannot_have_started_is_left() -> None:
    stale = ProcessStanding.STALE
    assert below_bash({1: None, 31: "earlier", 32: "earlier"}) == (stale, stale)
    assert below_bash({1: "ours", 31: "earlier", 32: "earlier"}) == (stale, stale)


def test_what_the_first_process_may_have_started_is_unknown() -> None:
    unknown = ProcessStanding.UNKNOWN
    assert below_bash({1: "earlier", 31: "earlier", 32: "earlier"}) == (unknown, unknown)
    assert below_bash({1: None, 31: None, 32: None}) == (unknown, unknown)
