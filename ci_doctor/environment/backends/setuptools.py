# SPDX-License-Identifier: Apache-2.0
"""Reads packaging files: projects built by setuptools, with or without setuptools-scm."""

import re

from ci_doctor.environment.backends.setuptools_scm import with_setuptools_scm
from ci_doctor.environment.backends.unpinned import computed_by_code, fixed, other
from ci_doctor.environment.packaging_files import SCM_TABLES, PackagingFiles, table
from ci_doctor.environment.project import Project
from ci_doctor.environment.setup_script import ScmOptions
from ci_doctor.environment.version_code import attribute_of


def detect(files: PackagingFiles) -> Project:
    """What computes the version, by what has the last word in a build.

    That is setuptools' `dynamic` table, then setup.py; setuptools-scm's hook leaves a version alone
    that is set already.
    """
    if files.is_version_dynamic and "version" in _dynamic_table(files):
        attribute = attribute_of(_dynamic_table(files)["version"])
        computed = computed_by_code(files, attribute) if attribute else None
        return computed or fixed(files, "[tool.setuptools.dynamic]")
    script = files.script
    if script.get_version_calls or script.use_scm_version is not None:
        return _from_setup_script(files)
    cfg_version = files.cfg_metadata.get("version")
    if cfg_version is not None and not cfg_version.startswith(("attr:", "file:")):
        return fixed(files, "setup.cfg", version=cfg_version)
    if script.version is not None:
        return fixed(files, "setup.py", version=script.version)
    if _requests_setuptools_scm(files):
        return with_setuptools_scm(files, ScmOptions(values={}), reads_pyproject=True)
    attribute = attribute_of(cfg_version)
    computed = computed_by_code(files, attribute) if attribute else None
    return computed or other(files, "setuptools")


def _dynamic_table(files: PackagingFiles) -> dict[str, object]:
    return table(table(files.tools, "setuptools"), "dynamic")


def _from_setup_script(files: PackagingFiles) -> Project:
    """A setup.py that calls setuptools-scm itself."""
    calls = files.script.get_version_calls
    if not calls:
        options = files.script.use_scm_version or ScmOptions(values={})
        return with_setuptools_scm(files, options, reads_pyproject=True)
    deciding = calls[0]
    # One variable must serve every call, so one call without a distribution's name decides for all.
    for call in calls:
        if "dist_name" not in call.values:
            deciding = call
            break
    return with_setuptools_scm(files, deciding, reads_pyproject=False)


def _requests_setuptools_scm(files: PackagingFiles) -> bool:
    """Whether setuptools-scm's hook would set the version (its `should_infer`).

    A table requests it, even an empty one, and so does the extra `setuptools-scm[simple]` beside a
    dynamic version. A plain build requirement does not (setuptools-scm 10.3).
    """
    if any(name in files.tools for name in SCM_TABLES):
        return True
    extra = re.compile(r"setuptools[-_.]+scm\s*\[[^\]]*\bsimple\b[^\]]*\]", re.IGNORECASE)
    has_extra = any(extra.match(text) for text in files.requires)
    return files.is_version_dynamic and has_extra
