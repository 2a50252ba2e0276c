# SPDX-License-Identifier: Apache-2.0
"""Rules of shell scripts, over the syntax tree of tree-sitter-bash."""
