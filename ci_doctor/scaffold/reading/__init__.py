# SPDX-License-Identifier: Apache-2.0
"""Commands of servers in scripts, pipelines, workflows, images and Makefiles, read from their texts alone."""
