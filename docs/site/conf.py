# SPDX-License-Identifier: Apache-2.0
"""Settings of Sphinx for the site: it reads the pages where they lie in the repository.

The root of the repository is Sphinx's source directory, so a link that works there works on the site. `docs/build.sh` runs it.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT)]

project = "ci-doctor"
author = "the ci-doctor contributors"
language = "en"
extensions = ["myst_parser", "repository_pages"]
root_doc = "README"
source_suffix = {".md": "markdown"}
include_patterns = [
    "*.md",
    "docs/**.md",
    "examples/**/README.md",
    "buildkite_plugins/**/README.md",
    "benchmarks/RESULTS.md",
]
# Sphinx walks through all that is not excluded, an environment of a hundred thousand files too.
_READ = {"docs", "examples", "buildkite_plugins", "benchmarks"}
exclude_patterns = sorted(
    path.name for path in ROOT.iterdir() if path.is_dir() and path.name not in _READ
)

# Pages are GitHub's Markdown: what only MyST knows is text.
myst_disable_syntax = ["myst_block_break", "myst_line_comment", "myst_target", "myst_role"]
myst_heading_anchors = 6
myst_heading_anchors_html_ids = True
smartquotes = False  # a quote in a command must stay what it is
# A shell line with `…`, or an example that is wrong on purpose, is shown without colours.
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_title = "ci-doctor"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
templates_path = ["templates"]
html_copy_source = False
html_use_index = False
html_show_search_summary = (
    False  # it fetches each page that it lists, which no browser does from a file
)
html_show_sphinx = False
html_show_copyright = False
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
html_theme_options = {"navigation_with_keys": False}
