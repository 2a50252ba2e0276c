# SPDX-License-Identifier: Apache-2.0
# ci-doctor on a slim Python image, without a network but for git. The context is a wheelhouse: README.md beside this file.
ARG BASE=python:3.12-slim-bookworm

FROM ${BASE} AS installed
WORKDIR /wheelhouse
RUN --mount=type=bind,target=/wheelhouse \
    sha256sum --check --quiet SHA256SUMS && \
    python3 -m venv /opt/ci-doctor && \
    /opt/ci-doctor/bin/pip install --no-cache-dir --no-index --find-links . --requirement requirements.txt

FROM ${BASE}
# setup-env asks git for versions, and reports name the commit.
# hadolint ignore=DL3008
RUN apt-get update && \
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends git && \
    rm -rf /var/lib/apt/lists/*
COPY --from=installed /opt/ci-doctor /opt/ci-doctor
# The command alone: the job's own `python` and `pip` stay what they are.
RUN ln -s /opt/ci-doctor/bin/ci-doctor /usr/local/bin/ci-doctor && \
    useradd --create-home --uid 1000 ci
# A number, because Kubernetes cannot tell that a name is not root.
USER 1000:1000
WORKDIR /home/ci
CMD ["ci-doctor", "--help"]
