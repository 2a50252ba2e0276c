# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor wait`: the same for a process that is not our child."""
