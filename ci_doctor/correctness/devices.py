# SPDX-License-Identifier: Apache-2.0
"""Reads the list of GPUs: the devices on which starts run side by side, and what the services ask of them.

A *place* is the value of CUDA_VISIBLE_DEVICES that a start gets: one device, or several for a
service that is spread over them. It is always a part of what the job itself may see. On a machine without GPUs it
is `cores:0-3`: a set of cores.
"""

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

from msgspec.structs import replace

from ci_doctor.correctness.settings import BUILDKITE, Arm, ArmPlan, ExperimentPlan
from ci_doctor.errors import UsageError
from ci_doctor.machine.gpus import VISIBLE, gpu_view
from ci_doctor.model.words import parse_duration
from ci_doctor.render.formatting import amount
from ci_doctor.services.gpu_demand import demands_of
from ci_doctor.services.spec import ServiceSpec, start_order

AUTO = "auto"
# The condition of a service that its GPUs are empty again.
GPU_MEMORY = "gpu-memory"
# Two starts at once: one more would cost the memory and the CPUs of another server.
AT_ONCE = 2
_LOCAL = re.compile(r"local:([1-9][0-9]{0,2})")
CORES = "cores:"
# `2`, or the beginning of a UUID; CUDA reads no other names.
_DEVICE = re.compile(r"[0-9]{1,9}|(?:GPU|MIG)-[0-9A-Za-z/-]+")
_HINT = "write --devices 0,1, or 0+1,2+3 for two devices each"


def local_sets(fan_out: str | None) -> int:
    """The N of `local:N`, 0 without one. Raises UsageError for any other place than `buildkite`. Pure."""
    match = _LOCAL.fullmatch(fan_out or "")
    if match is None and fan_out not in {None, BUILDKITE}:
        raise UsageError(
            f"fan_out: `{fan_out}` is no place of starts",
            hint="write --fan-out, or --fan-out local:4",
        )
    return int(match[1]) if match else 0


def places_of(
    named: Sequence[str],
    arms: Mapping[Arm, ArmPlan],
    environment: Mapping[str, str],
    sets: int = 0,
) -> tuple[str, ...]:
    """The places of starts by the setting `devices`; none if it is empty. Raises UsageError.

    `auto` are all devices that the job may see, as many together as a service is spread over. With so many `sets` of
    `local:N`, these are the first ones, or sets of cores where no device is named and the job sees none.
    """
    if sets and not named and not _sees_devices(environment):
        _check_services(arms, several=sets > 1)
        return _core_sets(sets)
    if not named and not sets:
        return ()
    named = named or (AUTO,)
    number = _demand(arms)
    own = _entries(environment.get(VISIBLE))
    if tuple(named) == (AUTO,):
        devices = _seen_by(environment) if own is None else own
        chunks = range(0, len(devices) - number + 1, number)
        groups = [devices[begin : begin + number] for begin in chunks]
        if not groups:
            raise UsageError(
                f"devices: a start takes {number} of the {len(devices)} devices that the job sees",
                hint="give the job more devices, or leave --devices out",
            )
    else:
        groups = [_group(word, own) for word in named]
        _check_groups(groups, number)
        if own is None:
            _check_known(groups, environment)
    if sets > len(groups):
        raise UsageError(
            f"fan_out: {sets} starts at once take {sets * number} devices, and {len(groups) * number} are there",
            hint=f"write --fan-out local:{len(groups)}",
        )
    _check_services(arms, several=len(groups) > 1)
    return tuple(",".join(group) for group in groups)


def _sees_devices(environment: Mapping[str, str]) -> bool:
    own = _entries(environment.get(VISIBLE))
    view = gpu_view(environment) if own is None else None
    return bool(own) or (view is not None and bool(view.gpus))


def _core_sets(sets: int) -> tuple[str, ...]:
    """The cores of this process in so many sets of neighbours, each of one size. Raises UsageError."""
    cores = sorted(os.sched_getaffinity(0))
    size = len(cores) // sets
    if not size:
        raise UsageError(
            f"fan_out: {sets} starts at once, and {len(cores)} cores",
            hint=f"write --fan-out local:{len(cores)}",
        )
    if shutil.which("taskset") is None:
        raise UsageError(
            "fan_out: sets of cores take the program taskset", hint="install util-linux"
        )
    chunks = (cores[begin : begin + size] for begin in range(0, sets * size, size))
    return tuple(CORES + ",".join(map(str, chunk)) for chunk in chunks)


def at_once(places: Sequence[str], sets: int = 0) -> int:
    """How many starts run at once. Pure."""
    return max(1, min(sets or AT_ONCE, len(places)))


def variables(place: str) -> dict[str, str]:
    """The environment of a start at a place; nothing without one. Pure."""
    return {VISIBLE: place} if place and not place.startswith(CORES) else {}


def placed(specs: Mapping[str, ServiceSpec], place: str) -> Mapping[str, ServiceSpec]:
    """The services of a start at a place: on a set of cores, if it is one. Pure."""
    if not place.startswith(CORES):
        return specs
    front = ["taskset", "--cpu-list", place.removeprefix(CORES)]
    return {name: replace(spec, command=[*front, *spec.words()]) for name, spec in specs.items()}


def placeholders(place: str = "") -> dict[str, str]:
    """`{devices}` and `{device.0}`, `{device.1}`, …; nothing without a place. Pure."""
    if not variables(place):
        return {}
    each = {f"device.{number}": device for number, device in enumerate(place.split(","))}
    return {"devices": place, **each}


def without_gpu_memory(plan: ExperimentPlan) -> tuple[ExperimentPlan, float | None]:
    """The plan of starts that run at once, and the seconds in which the GPUs must be empty after all.

    While one start runs, the memory of its own devices is no remains of the other. None: no service
    gives any back. Pure.
    """
    limits: list[float] = []
    arms = {}
    for arm, each in plan.arms.items():
        specs = {}
        for name, spec in each.specs.items():
            if GPU_MEMORY in spec.released:
                limits.append(parse_duration(spec.release_timeout))
            kept = [condition for condition in spec.released if condition != GPU_MEMORY]
            specs[name] = replace(spec, released=kept)
        arms[arm] = replace(each, specs=specs)
    return replace(plan, arms=arms), max(limits, default=None)


def _entries(value: str | None) -> list[str] | None:
    """The devices that CUDA_VISIBLE_DEVICES names, up to the first that names none; None if unset."""
    if value is None:
        return None
    words = (entry.strip() for entry in value.split(","))
    # CUDA stops at the first entry that names no device (`-1`), without an error.
    return list(takewhile(_DEVICE.fullmatch, words))


def _seen_by(environment: Mapping[str, str]) -> list[str]:
    """The UUIDs of the machine's GPUs, in place of a divided one those of its parts. Raises UsageError."""
    view = gpu_view(environment)
    seen = (
        () if view is None else (*(gpu for gpu in view.gpus if not gpu.is_partitioned), *view.parts)
    )
    devices = [gpu.uuid for gpu in seen if gpu.uuid is not None]
    if not devices:
        raise UsageError(
            "devices: NVIDIA's driver names no GPU here", hint="name the devices: --devices 0,1"
        )
    models = sorted({gpu.name for gpu in seen})
    if len(models) > 1:
        raise UsageError(
            f"devices: the GPUs are of different kinds: {', '.join(models)}",
            hint="name devices of one kind: --devices 0,1",
        )
    return devices


def _group(word: str, own: Sequence[str] | None) -> list[str]:
    devices = [device.strip() for device in word.split("+")]
    for device in devices:
        if not _DEVICE.fullmatch(device):
            raise UsageError(f"devices: `{device}` is no device: an index or a UUID", hint=_HINT)
        # Another one may be in use by another job.
        if own is not None and device not in own:
            raise UsageError(
                f"devices: {device} is none of the job's own: {VISIBLE}={','.join(own)}",
                hint=f"name devices as {VISIBLE} does, or write --devices auto",
            )
    return devices


def _check_known(groups: Sequence[Sequence[str]], environment: Mapping[str, str]) -> None:
    """Raises UsageError for an index beyond the GPUs that NVIDIA's driver names; without a driver nobody knows."""
    view = gpu_view(environment)
    count = 0 if view is None else len(view.gpus)
    for device in (device for group in groups for device in group):
        if count and device.isdecimal() and int(device) >= count:
            raise UsageError(
                f"devices: there is no device {device}: NVIDIA's driver names {amount(count, 'GPU')}",
                hint=_HINT,
            )


def _check_groups(groups: Sequence[Sequence[str]], number: int) -> None:
    devices = [device for group in groups for device in group]
    twice = [device for device, times in Counter(devices).items() if times > 1]
    if twice:
        raise UsageError(f"devices: {twice[0]} is named twice", hint=_HINT)
    sizes = {len(group) for group in groups}
    if len(sizes) > 1:
        raise UsageError("devices: each start must get as many devices as any other", hint=_HINT)
    if min(sizes) < number:
        raise UsageError(
            f"devices: a start takes {number} devices, and gets {min(sizes)}",
            hint=f"write --devices {'+'.join(map(str, range(number)))},… with {number} for each start",
        )


def _started(arms: Mapping[Arm, ArmPlan]) -> Iterator[tuple[str, str]]:
    """The names of arm and service that are started."""
    for arm, plan in arms.items():
        for name in start_order(plan.specs, plan.names):
            yield arm, name


def _demand(arms: Mapping[Arm, ArmPlan]) -> int:
    """How many devices a start takes: as many as its commands say, else one."""
    specs = ({name: arms[Arm(arm)].specs[name]} for arm, name in _started(arms))
    demands = (demand.first + demand.gpus for each in specs for demand in demands_of(each))
    return max(demands, default=1)


def _check_services(arms: Mapping[Arm, ArmPlan], *, several: bool) -> None:
    """Raises UsageError for a service that chooses devices itself, or cannot run twice at once."""
    for arm, name in _started(arms):
        spec = arms[Arm(arm)].specs[name]
        own = [spec.env[VISIBLE]] if VISIBLE in spec.env else []
        own += [word for word in spec.words() if f"{VISIBLE}=" in word]
        if any("{device" not in text for text in own):
            raise UsageError(
                f'devices: the service "{name}" of the {arm} sets {VISIBLE} itself',
                hint="take it out, or write {devices}, or {device.0} for the first of a start",
            )
        if several and spec.has_fixed_port():
            raise UsageError(
                f'devices: the service "{name}" of the {arm} has a fixed port, and two starts '
                "cannot share it",
                hint="use {port} in its command and in `ready`, or name one device",
            )
        if several and spec.pidfile is not None and "{" not in spec.pidfile:
            raise UsageError(
                f'devices: two starts of the service "{name}" of the {arm} would share its pidfile',
                hint='write pidfile = "{arm}-{start}.pid"',
            )
