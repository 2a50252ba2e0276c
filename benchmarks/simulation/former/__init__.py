# SPDX-License-Identifier: Apache-2.0
"""The verdict before it was reached over looks: one test after eight starts. Frozen, to be compared with. Pure."""
