"""Settings of the documentation's site: ``make docs`` builds it.

The source folder is the whole repository, so that a link from one page to another, to a table of
`benchmarks` or to a file is the same on the site as on a plain Git host. `include_patterns` has
the pages.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE / "_ext"))

from bayesdice_ppl import __version__  # noqa: E402

project = "bayesdice-ppl"
author = "the authors of bayesdice-ppl"
project_copyright = author
version = release = __version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "command_line",
    "files",
    "mathml",
    "public_names",
]


def notebooks() -> list[str]:
    """Every notebook: with its outputs where it was executed, else as the script alone."""
    scripts = sorted((ROOT / "notebooks").glob("*.py"))
    stems = {path.with_suffix("") for path in (*scripts, *(ROOT / "notebooks").glob("*.ipynb"))}
    executed = (path.with_suffix(".ipynb") for path in sorted(stems))
    found = (path if path.exists() else path.with_suffix(".py") for path in executed)
    return [path.relative_to(ROOT).as_posix() for path in found]


root_doc = "docs/index"
include_patterns = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/**.md",
    "docs/reference/*.rst",
    "benchmarks/**.md",
    "bayesdice_ppl/datasets/open_bandit/README.md",
    *notebooks(),
]
exclude_patterns = [".*", "**/.*", "docs/_*", "build", "dist", "tests", "out", "demo-output"]

# Notebooks are executed by `make test-slow`, never by this build.
nb_execution_mode = "off"
nb_custom_formats = {".py": ["jupytext.reads", {"fmt": "py:percent"}]}
myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 3
highlight_language = "none"
# `--strict` is an option, and no dash.
smartquotes = False

html_theme = "pydata_sphinx_theme"
html_title = "bayesdice-ppl"
html_static_path = ["_static"]
html_css_files = ["site.css"]
# The site begins one folder down, as its source does.
html_extra_path = ["_extra"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "bayesdice-ppl"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "secondary_sidebar_items": ["page-toc"],
}
copybutton_exclude = ".linenos, .gp, .go"

autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries_show_parents = "hide"
autosummary_generate = False
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# A name in single backticks is a link where it is a public name, and code elsewhere.
default_role = "py:obj"
# Names of other libraries, and names of ours that are no public ones, are code and no links. Those
# that are written with `bayesdice_ppl.` before them have to exist: see `public_names`.
nitpicky = True
nitpick_ignore_regex = [
    ("py:obj", r"(?!bayesdice_ppl\.).*"),
    ("py:class", r"(?!bayesdice_ppl\.).*"),
]
