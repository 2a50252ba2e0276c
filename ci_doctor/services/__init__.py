# SPDX-License-Identifier: Apache-2.0
"""Run: start servers, know when they are ready or dead, stop their whole tree. Pure."""
