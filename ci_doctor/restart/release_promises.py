# SPDX-License-Identifier: Apache-2.0
"""What a service must give back when it ends: its port, its processes, its memory. Pure."""

from ci_doctor.model.finding import Evidence
from ci_doctor.restart.observed import Observation, Released
from ci_doctor.restart.promise import Promise, State, Terms, promise, seconds, untested

_NAMED = 5


def port_released(seen: Observation, terms: Terms) -> Promise:
    """Nobody listens on its port any more."""
    name, rule, released = "the port is released", "port-not-released", seen.released
    if released is None or released.port is None:
        why = "the outage was not reached" if released is None else "it listens on another machine"
        return untested(name, rule, why)
    if released.port_s is None:
        return promise(
            name,
            rule,
            State.BROKEN,
            f"{terms.release_timeout_s:g} s after {terms.kill} had ended, {released.port_owner}",
            remedy=f"see which process of {terms.kill} outlives it, and end it with its parent (prctl PR_SET_PDEATHSIG)",
        )
    return promise(
        name, rule, State.KEPT, f"port {released.port} was free after {seconds(released.port_s)}"
    )


def tree_released(seen: Observation, terms: Terms) -> Promise:
    """It has ended by the signal, and all its processes with it."""
    name, rule, released = "the process tree is gone", "tree-not-released", seen.released
    if released is None:
        return untested(name, rule, "the outage was not reached")
    if released.tree_s is None or seen.refused:
        return promise(
            name,
            rule,
            State.BROKEN,
            _left(seen, released, terms),
            *(Evidence(excerpt=command) for command in released.commands[:_NAMED]),
            remedy=f"let the workers of {terms.kill} end with it: a pipe that they read, or prctl PR_SET_PDEATHSIG",
        )
    return promise(name, rule, State.KEPT, f"no process was left after {seconds(released.tree_s)}")


def _left(seen: Observation, released: Released, terms: Terms) -> str:
    if seen.refused and not released.processes:
        return f"{terms.kill} itself still lived {terms.release_timeout_s:g} s after {terms.signal}, and was killed"
    names = ", ".join(
        f"{process.name} (pid {process.pid})" for process in released.processes[:_NAMED]
    )
    more = (
        f" and {len(released.processes) - _NAMED} more" if len(released.processes) > _NAMED else ""
    )
    return f"{names}{more} outlived {terms.kill} by {terms.release_timeout_s:g} s, and had to be killed"


def memory_released(seen: Observation, terms: Terms) -> Promise:
    """It has left no memory behind."""
    name, rule, released = "memory is released", "memory-not-released", seen.released
    if released is None:
        return untested(name, rule, "the outage was not reached")
    if released.memory_left:
        return promise(
            name,
            rule,
            State.BROKEN,
            f"{terms.release_timeout_s:g} s after {terms.kill} had ended, {released.memory_left[0]}",
            *(Evidence(excerpt=sentence) for sentence in released.memory_left[1:]),
            remedy="unlink it at the start of the next one, or set `shared_memory = false` where it is kept on purpose",
        )
    if released.memory_s is None:
        return untested(name, rule, "its processes had to be killed first")
    return promise(
        name, rule, State.KEPT, f"{released.rss / (1 << 20):.0f} MiB went with its processes"
    )
