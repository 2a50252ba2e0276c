# SPDX-License-Identifier: Apache-2.0
"""Where code lies: directories, git revisions, wheels, sdists, installed packages. Nothing of it runs."""
