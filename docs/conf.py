"""Settings of the documentation site; ``make docs`` builds it."""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_ext"))

from onefold._version import __version__  # noqa: E402

project = "onefold"
author = "The onefold developers"
project_copyright = f"{author}, version {__version__}"
version = release = __version__

extensions = [
    "mathml",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_ext", "_templates"]
templates_path = ["_templates"]
nitpick_ignore_regex = [("py:.*", ".*")]

myst_enable_extensions = ["amsmath", "attrs_block", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_dmath_double_inline = True

default_role = "code"  # of single backticks in docstrings and examples
highlight_language = "bash"  # of blocks without a name
toc_object_entries_show_parents = "hide"

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib",),
    "image_srcset": ["2x"],
    "capture_repr": (),
    "min_reported_time": 10,
    "write_computation_times": False,
    "remove_config_comments": True,
    "first_notebook_cell": None,
    "download_all_examples": False,
    "show_signature": False,
    "copyfile_regex": r".*\.csv",
    "backreferences_dir": "api/generated/backreferences",
    "doc_module": ("onefold",),
    "only_warn_on_example_error": False,
}
# Pictures are drawn without a screen; what a method would like to say of it is of no use to a reader.
warnings.filterwarnings("ignore", message=".*non-interactive.*")

html_math_renderer = "mathml"

html_theme = "pydata_sphinx_theme"
html_title = "onefold"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/favicon.svg"
html_show_sourcelink = False
html_copy_source = False
html_theme_options: dict[str, Any] = {
    "logo": {
        "image_light": "_static/logo-light.svg",
        "image_dark": "_static/logo-dark.svg",
        "alt_text": "onefold",
    },
    "header_links_before_dropdown": 7,
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_center": [],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
# Pages that no section lies below.
_ALONE = (
    "index",
    "start",
    "peers/index",
    "wishes",
    "architecture",
    "contributing",
    "security",
    "changelog",
)
html_sidebars: dict[str, list[str]] = {page: [] for page in _ALONE}

copybutton_exclude = ".linenos, .gp, .go"

# Files of the repository's root that are pages of the site, too.
ROOT_PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}


def links_from_the_root(app: Sphinx, path: Path, parent: str, content: list[str]) -> None:
    """Links of a file in the root, as seen from docs/."""

    def rewrite(match: re.Match[str]) -> str:
        link = match[1]
        return f"]({ROOT_PAGES.get(link, link.removeprefix('docs/'))}{match[2] or ''})"

    if path.parent == Path(".."):
        content[0] = re.sub(r"\]\((?!https?:)([^)#\s]+)(#[^)\s]*)?\)", rewrite, content[0])


def unbroken_figures(app: Sphinx, name: str, content: list[str]) -> None:
    """Keep "4.2 ± 0.3" and "12 %" in one line of a table's cell."""
    rows = re.compile(r"^\|.*\|$", re.M)
    content[0] = rows.sub(lambda row: re.sub(r"(?<=\d) (?=[±%])|(?<=±) ", "\xa0", row[0]), content[0])


def only_ours(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out of class pages what scikit-learn's base classes bring; it is documented there."""
    home = getattr(obj, "__module__", None) or getattr(getattr(obj, "fget", None), "__module__", "")
    return True if home and not home.startswith("onefold") else None


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.connect("source-read", unbroken_figures)
    app.connect("include-read", links_from_the_root)
    app.connect("autodoc-skip-member", only_ours)
