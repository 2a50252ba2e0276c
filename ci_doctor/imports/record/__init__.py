# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: runs a command in which every Python records its imports; reads the traces."""
