# SPDX-License-Identifier: Apache-2.0
"""A process between ci-doctor and what it starts, which ends everything if ci-doctor is gone."""
