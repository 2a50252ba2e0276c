# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor wait`: readiness and death of a process that is not our child. Pure."""
