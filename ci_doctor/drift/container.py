# SPDX-License-Identifier: Apache-2.0
"""Reads files and variables: whether this is a container, and of which image."""

from collections.abc import Mapping
from pathlib import Path

from ci_doctor.identity.identity import Identity

# Made by Docker and by Podman; a container of Kubernetes may have neither.
_DOCKER = ".dockerenv"
_PODMAN = "run/.containerenv"
_KUBERNETES = "KUBERNETES_SERVICE_HOST"


def container_image(environ: Mapping[str, str], root: Path = Path("/")) -> Identity:
    """`image`: what the container was made of, `none` outside of one.

    Only Podman tells a container the name of its image.
    """
    podman = root / _PODMAN
    if podman.exists():
        return _podman(podman)
    if (root / _DOCKER).exists() or environ.get(_KUBERNETES):
        return Identity.of({}, {"image": "the container does not name its image"})
    return Identity.of({"image": "none"})


def _podman(path: Path) -> Identity:
    fields: dict[str, str] = {}
    try:
        for line in path.read_text(errors="replace").splitlines():
            key, _, value = line.partition("=")
            fields[key.strip()] = value.strip().strip('"')
    except OSError as error:
        return Identity.of({}, {"image": f"/{_PODMAN} cannot be read: {error.strerror}"})
    name = fields.get("image", "")
    if not name:
        return Identity.of({}, {"image": f"/{_PODMAN} does not name it"})
    image_id = fields.get("imageid", "")[:12]
    return Identity.of({"image": f"{name} ({image_id})" if image_id else name})
