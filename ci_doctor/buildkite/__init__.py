# SPDX-License-Identifier: Apache-2.0
"""Pure. The only door to the Buildkite agent."""
