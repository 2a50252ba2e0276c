# SPDX-License-Identifier: Apache-2.0
"""A small process between ci-doctor and what it starts. It stops everything if ci-doctor is gone."""
