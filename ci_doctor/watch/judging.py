# SPDX-License-Identifier: Apache-2.0
"""Pure. A script's processes as values, and whether the end of one leaves something waiting in vain.

A death is worth a word if three things hold: it was a server, or was to become one; something
still asks for it some time after its end; nobody else serves there, or is about to.
"""

import itertools
import re
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

from ci_doctor.syntax.shell_tree import syntax_tree
from ci_doctor.system.processes.process_table import Kin


class Process(Struct, kw_only=True, eq=False):
    """A process of the script.

    Times are monotonic seconds. `parent` had started it, if that was seen. `words` are its command
    line, `outputs` the files or pipes behind its stdout and stderr, as /proc names them, `log` the
    regular file that they lead to. `returncode` is as subprocess has it; None while it lives, and
    if nobody tells; oom: whose memory ran out, if the kernel killed it for that. `ports` are those
    that it listened on, ever. is_beside: another child of its parent was started while it ran.
    `ended` is when that was noticed, and `alive` the last moment at which it surely lived. `front` ran
    in the foreground then, the script first; empty if it was no server.
    """

    kin: Kin
    born: float
    parent: "Process | None" = None
    words: tuple[str, ...] = ()
    directory: str = ""
    outputs: tuple[str, ...] = ()
    log: str | None = None
    environ_ports: frozenset[int] = frozenset()
    ended: float | None = None
    alive: float = 0.0
    returncode: int | None = None
    oom: str | None = None
    is_orphan: bool = False
    is_beside: bool = False
    ports: set[int] = set()
    front: "tuple[Process, ...]" = ()
    pidfd: int = -1

    @property
    def pid(self) -> int:
        """Its pid."""
        return self.kin.pid

    @property
    def program(self) -> str:
        """`python3`, without its folder."""
        return (self.words[0].rpartition("/")[2] if self.words else "") or self.kin.name

    @property
    def name(self) -> str:
        """`python3 (pid 42)`."""
        return f"{self.program} (pid {self.pid})"

    @property
    def is_copy(self) -> bool:
        """Whether it runs what its parent runs: a subshell, or a worker that was forked."""
        return self.parent is not None and self.words == self.parent.words

    @property
    def is_shell(self) -> bool:
        """Whether it is a shell."""
        return self.program.lstrip("-") in _SHELLS

    def above(self) -> Iterator["Process"]:
        """Its parent, and those above it."""
        parent = self.parent
        while parent is not None:
            yield parent
            parent = parent.parent


class Listener(Struct, kw_only=True, eq=False):
    """A socket that listens on a TCP port since it was seen; `owner` is None if it is not the script's."""

    port: int
    since: float
    owner: Process | None = None


_SHELLS: Final = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "busybox"})
# They wait, ask or pass on, and are no servers unless they listen.
_PAUSES: Final = frozenset({"sleep", "wait", "inotifywait"})
_CONNECTING: Final = frozenset(
    {"curl", "wget", "nc", "ncat", "netcat", "http", "grpcurl", "redis-cli", "pg_isready", "psql"}
)
_CLIENTS: Final = _CONNECTING | {
    "tail",
    "grep",
    "tee",
    "cat",
    "kill",
    "pgrep",
    "lsof",
    "ss",
    "ps",
    "jq",
}
_SERVER_WORD: Final = re.compile(
    r"serv|launch|daemon|corn|http|listen|vllm|sglang|redis|postgres|ray|llama", re.IGNORECASE
)
_ENDERS: Final = frozenset({"kill", "pkill", "killall", "fuser"})
# They end badly, too, and nobody waits for a port of theirs.
_TOOLS: Final = frozenset(
    {"make", "ninja", "cmake", "cc", "gcc", "g++", "clang", "ld", "nvcc", "cargo", "go", "git"}
    | {"pip", "pip3", "apt-get", "npm", "pytest", "ruff", "mypy"}
    | {"tar", "cp", "mv", "rm", "rsync", "true", "false"}
)
# What they start is no process of the script.
_ELSEWHERE: Final = frozenset(
    {"docker", "podman", "nerdctl", "docker-compose", "kubectl", "systemctl", "service", "ssh"}
)
_WRAPPERS: Final = frozenset(
    {"timeout", "env", "nice", "stdbuf", "sudo", "setsid", "nohup", "time", "xargs", "uv", "srun"}
)
# Requests to end: by the script, a person or an agent, as far as anybody can tell.
_ASKED: Final = frozenset(
    {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL, signal.SIGPIPE, signal.SIGQUIT}
)
_FROM_SHELL: Final = 128
_HOST_PORT: Final = re.compile(
    r"(?:localhost|\d+\.\d+\.\d+\.\d+|\[::1?\]|host\S*|\$\{?\w*HOST\w*\}?|/dev/tcp/[^/\s]+|tcp://[^:/\s]*)"
    r"[:/ ](\d{2,5})(?!\d|\.\d)",
    re.IGNORECASE,
)
# With a space in the text of `sh -c`.
_OPTION: Final = re.compile(r"-{1,2}[\w.-]*port[\w-]*[= ](\d{2,5})(?!\d)", re.IGNORECASE)
_ASSIGNMENT: Final = re.compile(r"\w*PORT\w*=(\d{2,5})", re.IGNORECASE)
_PORT_OPTIONS: Final = re.compile(
    r"-{1,2}[\w.-]*port|-p|-P|-l|-b|--bind|--listen|--http", re.IGNORECASE
)
_LOWEST_BARE: Final = 1024
_HIGHEST: Final = 65535


@lru_cache(4096)
def named_ports(words: tuple[str, ...]) -> frozenset[int]:
    """The TCP ports that a command line names: `--port 8000`, `localhost:8000`, `server.py 8000`."""
    return frozenset(port for port in _named(words) if 0 < port <= _HIGHEST)


def _named(words: tuple[str, ...]) -> Iterator[int]:
    previous = ""
    for word in words:
        for pattern in (_HOST_PORT, _OPTION, _ASSIGNMENT):
            yield from (int(match[1]) for match in pattern.finditer(word))
        if word.startswith(":") and word[1:].isdigit() and len(word) <= 6:
            yield int(word[1:])
        elif word.isdigit() and len(word) <= 5:
            is_option = previous.startswith("-")
            if (is_option and _PORT_OPTIONS.fullmatch(previous)) or (
                not is_option
                and int(word) >= _LOWEST_BARE
                and previous.rpartition("/")[2] not in {"", "timeout", *_PAUSES}
            ):
                yield int(word)
        previous = word


def is_bad(process: Process) -> bool | None:
    """Whether it ended by a fault of its own; None if nobody knows, or if it may have been asked to."""
    code = process.returncode
    if process.oom is not None:
        return True
    if code is None or code == 0:
        return None
    number = -code if code < 0 else code - _FROM_SHELL
    return None if number in _ASKED else True


def is_pause(process: Process) -> bool:
    """Whether it only waits, as in a loop."""
    return process.program in _PAUSES


def is_client(process: Process) -> bool:
    """Whether it is a program that asks a server, and is none."""
    return process.program in _CLIENTS


def is_ender(process: Process) -> bool:
    """Whether it is a program that ends others."""
    return process.program in _ENDERS


def starts_elsewhere(process: Process) -> bool:
    """Whether it starts servers that are no processes of the script: in containers, on another machine."""
    return any(word.rpartition("/")[2] in _ELSEWHERE for word in process.words[:2])


def is_shell_or_wrapper(process: Process) -> bool:
    """Whether it only runs another command."""
    return process.is_shell or process.program in _WRAPPERS


def may_have_served(process: Process) -> bool:
    """Whether it listened, or may have been about to."""
    if process.ports:
        return True
    if process.program in _PAUSES | _CLIENTS or (process.is_shell and process.is_copy):
        return False
    # `timeout 1 bash -c '</dev/tcp/localhost/8000'` asks.
    return not (is_shell_or_wrapper(process) and any("/dev/tcp/" in it for it in process.words))


def is_background(process: Process) -> bool:
    """Whether it ran beside what its script did: a job of a shell, a daemon, a child of a program."""
    line = [each for each in (process, *process.above()) if each.parent is not None]
    if any(each.is_beside or each.is_orphan for each in (process, *line)):
        return True
    starter = next((each for each in process.above() if each.program not in _WRAPPERS), None)
    return starter is None or not starter.is_shell


def foreground(root: Process, living: Iterable[Process]) -> tuple[Process, ...]:
    """From the script itself down to the command that runs: at each step the youngest child.

    No server, and no job of a shell that has gone on to another command.
    """
    children: dict[int, list[Process]] = {}
    for process in living:
        parent = process.parent
        if parent is not None and not process.ports and not (process.is_beside and parent.is_shell):
            children.setdefault(id(parent), []).append(process)
    chain = [root]
    while below := children.get(id(chain[-1])):
        chain.append(max(below, key=lambda each: each.born))
    return tuple(chain)


class Scene(Struct, frozen=True, kw_only=True):
    """What is known at one moment.

    `recent` are the processes that came lately, dead ones too. `refused` has the times of refused
    connections by port; 0 is a port that nobody knows. tells_refusals: the kernel tells of them. is_elsewhere: a command may
    have started servers that are no processes of the script.
    """

    now: float
    root: Process
    living: tuple[Process, ...]
    recent: tuple[Process, ...]
    listeners: tuple[Listener, ...]
    refused: Mapping[int, Sequence[float]]
    is_elsewhere: bool = False
    tells_refusals: bool = False


class Waiting(Struct, frozen=True, kw_only=True):
    """What waits for a server that is gone: its port, or its log.

    From the first sign to the last one, both after its end or still there then; refused_before:
    connections that were refused while it lived; is_repeated: it was asked for more than once. `by` is the process that shows it, None if only the kernel
    has counted `refusals`.
    """

    port: int | None
    since: float
    last: float
    refusals: int = 0
    refused_before: int = 0
    is_repeated: bool = True
    by: Process | None = None
    log: str | None = None


# A process that is younger may still be its parent's copy, before execve(2).
SETTLED_S: Final = 1.0
# From an end to the last sign that something still waits. Whoever asks a server to end asks no more
# soon after; a server that failed by itself was not asked.
GRACE_S: Final = 0.4
LONG_GRACE_S: Final = 3.0
# A parent that is no shell may run a check as a child of its own, again and again. A server that was
# asked to end may do so by an exit code.
_SHORT_GRACE_S: Final = 1.5
# The script may have ended it, and see that it stays down; or what has started it may start it again.
_OWN_GRACE_S: Final = 15.0
REPEATED: Final = 2
_LONGEST_LOOP: Final = 400
_APART_S: Final = 0.25  # curl asks at two addresses of localhost, one after the other
_MANY: Final = 3


def waiting_for(death: Process, scene: Scene) -> Waiting | None:
    """What waits in vain for this process that has ended; None if nothing does, or not yet."""
    if death.ended is None or not may_have_served(death):
        return None
    grace_s = _grace(death, scene)
    if not death.ports and not _was_to_serve(death, scene):
        return None
    if _is_replaced(death, scene):
        return None
    for waiting in _signs(death, scene):
        # A script that has asked in vain before is in its loop. Another one may ask once, to see
        # that its server is down, and on a busy machine that takes a while.
        is_in_loop = not death.ports and waiting.refused_before >= REPEATED
        since = death.ended if is_in_loop else max(waiting.since, death.ended)
        if waiting.last - since >= grace_s and (is_in_loop or waiting.is_repeated):
            return waiting
    return None


def served_unseen(process: Process, lost: Iterable[Listener]) -> frozenset[int]:
    """The ports that it listened on, although no look saw that.

    `lost` are listeners that went when it ended, and whose owner was not known until then.
    """
    wanted = ports_of(process)
    return frozenset(each.port for each in lost if each.since > process.born) & wanted


def failed_first(death: Process, scene: Scene) -> Process:
    """Of what a launcher, `timeout` or `script` only waited for: the process below it that failed before it.

    It ran for most of its time, and ended last. Itself if there is none.
    """
    end = death.ended or scene.now
    below = [
        each
        for each in scene.recent
        if death in each.above()
        and each.ended is not None
        and each.returncode not in {None, 0}
        and may_have_served(each)
        and end - each.ended <= SETTLED_S
        and each.ended - each.born >= (end - death.born) / 2
    ]
    return max(below, key=lambda each: len(tuple(each.above())), default=death)


def is_settled(death: Process, scene: Scene) -> bool:
    """Whether its port, or one that was asked for in vain, was served after its end."""
    wanted = ports_of(death) or scene.refused.keys()
    return any(
        each.port in wanted and each.since > (death.ended or scene.now) for each in scene.listeners
    )


def _grace(death: Process, scene: Scene) -> float:
    """For how long something is to ask in vain before that is a wait."""
    chain = foreground(scene.root, scene.living)
    starter = _starter(death)
    if starter is not None and starter.ended is None and starter not in chain:
        return _OWN_GRACE_S
    if not is_bad(death):
        is_own = bool(death.ports) and not _was_busy(death, scene, chain)
        return _OWN_GRACE_S if is_own else LONG_GRACE_S
    is_child = not death.ports and starter is not None and not starter.is_shell
    is_code = bool(death.ports) and 0 < (death.returncode or 0) < _FROM_SHELL
    return _SHORT_GRACE_S if is_child or is_code else GRACE_S


def _was_busy(death: Process, scene: Scene, chain: Sequence[Process]) -> bool:
    """Whether the script waited for another command when it ended, which hardly ended it."""
    return any(
        each.born < death.alive
        and (each.ended is None or each.alive >= (death.ended or 0.0))
        and not each.is_shell
        and not each.is_beside
        and each not in death.above()
        and not is_ender(each)
        and not (death.returncode == 0 and named_ports(each.words) & death.ports)
        and _is_in_front(each, death, chain)
        for each in scene.recent
    )


def _was_to_serve(death: Process, scene: Scene) -> bool:
    """Whether a process that never listened was a server that was not ready yet."""
    # A daemon's parents end well, and are copies of each other.
    if not is_background(death) or (death.is_copy and death.returncode == 0):
        return False
    is_short = death.returncode == 0 and (death.ended or scene.now) - death.born < SETTLED_S
    if not ports_of(death) and (scene.is_elsewhere or death.program in _TOOLS or is_short):
        return False
    # A check that is made again and again.
    same = [each for each in scene.recent if each.words == death.words and each is not death]
    if any(each.parent is death.parent and not each.is_copy for each in same):
        return False
    # A client of what another one served; a predecessor may need a moment to end.
    wanted = ports_of(death)
    begun = death.born + SETTLED_S
    if any(each.ports & wanted and (each.ended or scene.now) > begun for each in scene.recent):
        return False
    # Another one that is to serve there may be on its way.
    others = _candidates(death, scene)
    # Whoever names no port and does not look like a server is none, if another one may be it.
    is_unlike = not wanted and not any(map(_SERVER_WORD.search, death.words))
    if any(named_ports(each.words) & wanted for each in others) or (others and is_unlike):
        return False
    # A launcher ends well, and its daemon goes on, perhaps as nobody's child.
    is_well = death.returncode == 0
    return not any(
        death in each.above()
        or (
            is_well
            and each.parent is None
            and each.born >= death.born
            and not (wanted and ports_of(each) and not wanted & ports_of(each))
        )
        for each in scene.living
    )


def _is_replaced(death: Process, scene: Scene) -> bool:
    """Whether another process may be about to serve in its place."""
    chain = foreground(scene.root, scene.living)
    wanted = ports_of(death)
    for each in scene.recent:
        if death in each.above() or each is scene.root or each is death:
            continue
        # The later one counts, if it has ended meanwhile.
        outlived = each.ended is None or each.ended > (death.ended or 0.0)
        is_next = each.words == death.words or (each.born > death.born and _is_like(each, death))
        if outlived and ((each.born > death.born and each.ports & wanted) or is_next):
            return True
        if each.ended is not None:
            continue
        # An end may be noticed a moment after the next start.
        is_later = each.born > (death.ended or 0.0) - SETTLED_S
        may_serve = not each.ports and not each.is_shell and may_have_served(each)
        if not is_later or not may_serve or not is_background(each):
            continue
        # A client names the port, too, and runs in the foreground as long as nothing else does.
        if each not in chain and not named_ports(each.words) & wanted:
            return True
    return False


def _is_like(one: Process, other: Process) -> bool:
    """Whether two run the same program, `vllm serve` or `python server.py`, and not at other ports."""
    count = 3 if "-m" in one.words[1:2] else 2
    if len(one.words) < count or one.words[:count] != other.words[:count]:
        return False
    first, second = ports_of(one), ports_of(other)
    return not first or not second or bool(first & second)


def ports_of(death: Process) -> frozenset[int]:
    """Where it listened, or by its command line or environment was to listen."""
    return frozenset(death.ports) or named_ports(death.words) or death.environ_ports


def _is_served(port: int, death: Process, scene: Scene) -> bool:
    """Whether somebody listens there who is not another's server that was there before."""
    return any(
        each.port == port and (each.owner is not None or each.since > death.born)
        for each in scene.listeners
    )


def _starter(death: Process) -> Process | None:
    return next((each for each in death.above() if each.program not in _WRAPPERS), None)


def _fronts(death: Process, scene: Scene) -> tuple[Process, ...]:
    """What runs in the foreground, of the script and of one in the background that started it for a port."""
    chain = foreground(scene.root, scene.living)
    starter = _starter(death)
    if starter is None or starter.ended is not None or starter in chain or not ports_of(death):
        return chain
    return (*chain, *foreground(starter, scene.living))


def _signs(death: Process, scene: Scene) -> Iterator[Waiting]:
    chain = _fronts(death, scene)
    askers = _askers(death, scene, chain)
    wanted = ports_of(death)
    ports = [
        port
        for port in sorted(wanted or _never_served(askers, scene))
        if not _is_served(port, death, scene)
    ]
    is_waiting = _waits(death, scene, chain)
    # Of a server that may have been asked to end, a poller in the background may be refused.
    beside = set(scene.living) - set(chain)
    is_polled = not is_bad(death) and any(_may_poll(each, death) for each in beside)
    for port in ports:
        refused = _later(scene.refused.get(port, ()), death)
        asking = askers.get(port, [])
        if not refused and _is_answered(asking, death, scene):
            continue
        if asking or (refused and wanted and is_waiting and not is_polled):
            times = [*refused, *(_last_seen(each, scene) for each in asking)]
            yield Waiting(
                port=port,
                since=min([*refused[:1], *(each.born for each in asking)]),
                last=max(times),
                refusals=len(refused),
                refused_before=_before(scene.refused.get(port, ()), death),
                is_repeated=_is_repeated(refused, asking, scene),
                by=asking[-1] if asking else None,
            )
    if is_waiting and not is_polled:
        yield from _unclear_signs(death, scene, ports)
    # After a job that failed, its log is read by one command after the other: no wait.
    by_words: dict[tuple[str, ...], list[Process]] = {}
    for each in askers.get(None, []):
        by_words.setdefault(each.words, []).append(each)
    for readers in by_words.values():
        yield Waiting(
            port=None,
            since=min(each.born for each in readers),
            last=max(_last_seen(each, scene) for each in readers),
            is_repeated=len(readers) >= REPEATED or _follows(readers[-1]),
            by=readers[-1],
            log=death.log,
        )


def _is_answered(asking: Sequence[Process], death: Process, scene: Scene) -> bool:
    """Whether somebody answers there whom nobody sees: in a container, on another machine.

    A connection to a port of this machine at which nobody listens is refused, and the kernel tells of that.
    """
    ports = {port for each in asking for port in named_ports(each.words)}
    return (
        scene.tells_refusals
        and all(each.program in _CONNECTING for each in asking)
        and not _later(scene.refused.get(0, ()), death)
        and not any(each.port in ports for each in scene.listeners)
    )


def _follows(process: Process) -> bool:
    """Whether it reads a log for as long as that grows: `tail -f`."""
    is_following = any(re.fullmatch(r"-\w*[fF]|--follow.*", word) for word in process.words[1:])
    return process.ended is None and process.program == "tail" and is_following


def _may_poll(process: Process, death: Process) -> bool:
    """Whether it may ask a server in the background: it is no server, and none of a server's workers."""
    is_passive = process.program in {"tee", "tail", "cat", *_WRAPPERS} or is_pause(process)
    family = (process, *process.above())
    return not is_passive and death not in family and not any(each.ports for each in family)


def _unclear_signs(death: Process, scene: Scene, ports: Sequence[int]) -> Iterator[Waiting]:
    """Refused connections to a port that nobody knows, or that is written nowhere."""
    unknown = _later(scene.refused.get(0, ()), death)
    is_clear = bool(is_bad(death)) or not _noise(scene, death)
    if ports and len(unknown) >= _MANY and is_clear:
        yield Waiting(port=ports[0], since=unknown[0], last=unknown[-1], refusals=len(unknown))
    starter = death.parent
    if ports_of(death) or not is_bad(death) or starter is None or starter.is_shell:
        return
    if _candidates(death, scene):
        return
    # The program that started it asks again and again. What a worker of it served is the worker's.
    served = {port for each in scene.recent for port in each.ports}
    for port, times in scene.refused.items():
        later = _later(times, death)
        if port and port not in served and times[0] >= death.born and len(later) >= _MANY:
            yield Waiting(port=port, since=times[0], last=later[-1], refusals=len(later))


def _askers(
    death: Process, scene: Scene, chain: Sequence[Process]
) -> dict[int | None, list[Process]]:
    """Who asks in the foreground, now or after that end, by port; None for its log."""
    askers: dict[int | None, list[Process]] = {}
    for each in scene.recent:
        if not _is_after(each, death) or not _is_in_front(each, death, chain):
            continue
        if each.is_shell and not _is_one_statement(each):
            continue
        for port in named_ports(each.words):
            # Of another program than a client only the kernel tells that it asks.
            is_refused = _later([*scene.refused.get(port, ()), *scene.refused.get(0, ())], death)
            if is_client(each) or is_refused or not scene.tells_refusals:
                askers.setdefault(port, []).append(each)
        # `tail --pid` waits for the end itself.
        if _names_log(each, death) and not any(word.startswith("--pid") for word in each.words):
            askers.setdefault(None, []).append(each)
    return askers


def _is_after(process: Process, death: Process) -> bool:
    return process.ended is None or process.born > (death.ended or 0.0)


def _is_in_front(process: Process, death: Process, chain: Sequence[Process]) -> bool:
    """Whether it runs, or ran, in the foreground, and asks rather than serves."""
    if process is death or process.ports or death in process.above():
        return False
    return process in chain or process.parent in chain


def _is_repeated(refused: Sequence[float], asking: Sequence[Process], scene: Scene) -> bool:
    """Whether two commands have asked, or one for long, or connections were refused three times."""
    times = [at for before, at in itertools.pairwise(refused) if at - before > _APART_S]
    is_long = any(each.ended is None and scene.now - each.born >= LONG_GRACE_S for each in asking)
    return is_long or len(asking) >= REPEATED or len(times) + 1 >= _MANY


def _last_seen(process: Process, scene: Scene) -> float:
    return scene.now if process.ended is None else process.born


def _later(times: Sequence[float], death: Process) -> list[float]:
    return [at for at in times if at > (death.ended or 0.0)]


def refused_later(death: Process, refused: Mapping[int, Sequence[float]]) -> list[float]:
    """When connections to its ports were refused after its end, by the times of all by port."""
    return sorted(at for port in death.ports for at in _later(refused.get(port, ()), death))


def _noise(scene: Scene, death: Process) -> bool:
    """Whether somebody else is refused all the time: before that process began, or while it served."""
    times = scene.refused.get(0, ())
    served = [each.since for each in scene.listeners if each.owner is death]
    begun = min(served, default=death.ended or 0.0)
    return any(
        death.born - LONG_GRACE_S <= at < death.born or begun < at < (death.ended or 0.0)
        for at in times
    )


def _before(times: Iterable[float], death: Process) -> int:
    return sum(death.born <= at <= (death.ended or at) for at in times)


def _never_served(askers: Iterable[int | None], scene: Scene) -> frozenset[int]:
    """The ports that the foreground asks for, and nobody ever served."""
    served = {each.port for each in scene.listeners}
    served.update(port for process in scene.recent for port in process.ports)
    return frozenset(port for port in askers if port is not None) - served


def _candidates(death: Process, scene: Scene) -> list[Process]:
    """Who lives, never listened, and may be the server that is waited for: nobody who asks for it."""
    wanted = ports_of(death)
    askers = {
        id(each.parent)
        for each in scene.recent
        if is_client(each) and named_ports(each.words) & wanted
    }
    return [
        each
        for each in scene.living
        if each is not scene.root
        and not each.ports
        and may_have_served(each)
        and is_background(each)
        and each not in set(death.above())
        and id(each) not in askers
    ]


def _waits(death: Process, scene: Scene, chain: Sequence[Process]) -> bool:
    """Whether what runs in the foreground looks like waiting: not one `sleep`, and no next step."""
    pauses = [
        each
        for each in scene.recent
        if each.born > (death.ended or 0.0)
        and each.program in _PAUSES | _CLIENTS
        and _is_in_front(each, death, chain)
    ]
    leaf = chain[-1]
    if len(pauses) >= REPEATED:
        return True
    if leaf.is_shell:
        # Not between two commands: it waits itself.
        return not any(
            each.parent is leaf and (each.ended or 0.0) > scene.now - SETTLED_S
            for each in scene.recent
            if each is not death
        )
    return leaf.program not in _PAUSES and leaf.born < (death.ended or 0.0)


def _is_one_statement(process: Process) -> bool:
    """Whether a shell has its program in its command line, and it is one loop: `sh -c 'until …'`."""
    for option, text in itertools.pairwise(process.words[1:4]):
        if re.fullmatch(r"-\w*c", option) and len(text) <= _LONGEST_LOOP:
            return len(syntax_tree(text).program.children) == 1
    return False


def _names_log(process: Process, death: Process) -> bool:
    """Whether its command line names the log of the process that has ended, by whatever path."""
    if death.log is None:
        return False
    name = death.log.rpartition("/")[2]
    return any(word == name or word.endswith(f"/{name}") for word in process.words[1:])
