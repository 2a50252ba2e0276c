# SPDX-License-Identifier: Apache-2.0
"""What services leave behind on the machine: shared memory, temporary files, sockets. Pure."""
