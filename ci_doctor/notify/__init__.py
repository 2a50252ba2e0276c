# SPDX-License-Identifier: Apache-2.0
"""Report: three lines about a step or a build, on its pull request and to webhooks."""
