# SPDX-License-Identifier: Apache-2.0
"""From starts to a verdict: what differs, the test, the schedule, the risk. Pure."""
