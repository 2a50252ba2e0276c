# SPDX-License-Identifier: Apache-2.0
"""Pure. What the commands below `ci-doctor preload` give back, one module per capability."""
