# SPDX-License-Identifier: Apache-2.0
# ci-doctor on a CUDA image, or on any image of Debian or Ubuntu with Python >= 3.11: --build-arg BASE=YOUR_IMAGE
# The context is a wheelhouse for the Python of that image: README.md beside this file.
ARG BASE=nvidia/cuda:12.8.1-runtime-ubuntu24.04

FROM ${BASE} AS installed
# hadolint ignore=DL3008
RUN apt-get update && \
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends python3 python3-venv && \
    rm -rf /var/lib/apt/lists/*
WORKDIR /wheelhouse
RUN --mount=type=bind,target=/wheelhouse \
    sha256sum --check --quiet SHA256SUMS && \
    python3 -m venv /opt/ci-doctor && \
    /opt/ci-doctor/bin/pip install --no-cache-dir --no-index --find-links . --requirement requirements.txt

FROM ${BASE}
# setup-env asks git for versions, and reports name the commit.
# hadolint ignore=DL3008
RUN apt-get update && \
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends git python3 && \
    rm -rf /var/lib/apt/lists/*
COPY --from=installed /opt/ci-doctor /opt/ci-doctor
# Ubuntu's images have a user of the id 1000 already.
RUN ln -s /opt/ci-doctor/bin/ci-doctor /usr/local/bin/ci-doctor && \
    useradd --create-home --uid 2000 ci
# A number, because Kubernetes cannot tell that a name is not root.
USER 2000:2000
WORKDIR /home/ci
CMD ["ci-doctor", "--help"]
