# SPDX-License-Identifier: Apache-2.0
"""Restart resilience: kill a service under load, start it again, check its promises. Pure."""
