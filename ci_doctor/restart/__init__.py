# SPDX-License-Identifier: Apache-2.0
"""Restart resilience: a service is killed under load and started again, and what was promised is checked."""
