# SPDX-License-Identifier: Apache-2.0
"""What a service must give back when it ends: its port, its processes, its memory. Pure."""

from ci_doctor.model.finding import Evidence
from ci_doctor.render.formatting import duration, size
from ci_doctor.restart import rules
from ci_doctor.restart.observed import Observation, Released
from ci_doctor.restart.promise import Promise, Terms, broken, kept, untested

# Processes that one sentence names: a server with a worker for each GPU has more.
_NAMED = 5
_NOT_REACHED = "the outage was not reached"


def port_released(observation: Observation, terms: Terms) -> Promise:
    """Nobody listens on its port any more."""
    name = "the port is released"
    rule = rules.PORT_NOT_RELEASED
    released = observation.released
    if released is None:
        return untested(name, rule, _NOT_REACHED)
    if released.port is None:
        return untested(name, rule, "it listens on another machine")
    if released.port_s is None:
        limit = f"{terms.release_timeout_s:g} s after {terms.kill} had ended"
        return broken(name, rule, f"{limit}, {released.port_owner}")
    return kept(name, rule, f"port {released.port} was free after {duration(released.port_s)}")


def tree_released(observation: Observation, terms: Terms) -> Promise:
    """It has ended by the signal, and all its processes with it."""
    name = "the process tree is gone"
    rule = rules.TREE_NOT_RELEASED
    released = observation.released
    if released is None:
        return untested(name, rule, _NOT_REACHED)
    # A service that had to be killed with SIGKILL breaks it too, even if nothing outlived that.
    if released.tree_s is None or observation.refused:
        evidence = [Evidence(excerpt=command) for command in released.commands[:_NAMED]]
        return broken(name, rule, _left(observation, released, terms), *evidence)
    return kept(name, rule, f"no process was left after {duration(released.tree_s)}")


def _left(observation: Observation, released: Released, terms: Terms) -> str:
    limit = f"{terms.release_timeout_s:g} s"
    if observation.refused and not released.processes:
        return f"{terms.kill} itself still lived {limit} after {terms.signal}, and was killed"
    names = [f"{process.name} (pid {process.pid})" for process in released.processes[:_NAMED]]
    listed = ", ".join(names)
    unnamed = len(released.processes) - len(names)
    if unnamed:
        listed += f" and {unnamed} more"
    return f"{listed} outlived {terms.kill} by {limit}, and had to be killed"


def memory_released(observation: Observation, terms: Terms) -> Promise:
    """It has left no memory behind."""
    name = "memory is released"
    rule = rules.MEMORY_NOT_RELEASED
    released = observation.released
    if released is None:
        return untested(name, rule, _NOT_REACHED)
    if released.memory_left:
        first, *others = released.memory_left
        limit = f"{terms.release_timeout_s:g} s after {terms.kill} had ended"
        evidence = [Evidence(excerpt=sentence) for sentence in others]
        return broken(name, rule, f"{limit}, {first}", *evidence)
    if released.memory_taken_back:
        first, *others = released.memory_taken_back
        more = f" and {len(others)} more" if others else ""
        return kept(name, rule, f"the next start took back what was left: {first}{more}")
    # While processes live, memory is in use and not left behind: it was never looked at.
    if released.memory_s is None:
        return untested(name, rule, "its processes had to be killed first")
    gone = f"{size(released.rss)} went with its processes"
    if not released.memory_seen:
        return kept(name, rule, gone)
    places = ", ".join(released.memory_seen)
    return kept(name, rule, f"{gone}; nothing is left in what was looked at: {places}")
