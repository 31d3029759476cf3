"""How Sphinx shows the pages; `docs/build_site.py` calls it on the tree that `building/pages.py` lays out."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from docutils import nodes

sys.path.insert(0, str(Path(__file__).parent))

from detector_bench import __version__

project = "detector_bench"
author = "The detector_bench authors"
copyright = "the detector_bench authors, MIT licence"  # noqa: A001 (Sphinx's name for it)
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["files/**"]
root_doc = "index"

# Pages are Markdown as code hosts show it; only what the site needs besides is switched on.
myst_enable_extensions = ["attrs_block", "colon_fence", "deflist"]
myst_heading_anchors = 4
highlight_language = "none"

# Notebooks are executed whenever their text has changed; an error, or a cell of over two minutes, ends the build.
nb_execution_mode = "cache"
nb_execution_cache_path = os.environ["DETECTOR_BENCH_NOTEBOOK_CACHE"]
nb_execution_in_temp = True
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_execution_show_tb = True

# In our docstrings a word between single backticks is code.
default_role = "code"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
autosummary_generate = False


html_theme = "pydata_sphinx_theme"
html_title = "detector_bench"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_use_index = False
html_domain_indices = False
smartquotes = False
html_theme_options = {
    "logo": {"text": "detector_bench"},
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "show_toc_level": 2,
    "navigation_depth": 2,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_center": [],
    "footer_end": ["plain-text"],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "search_bar_text": "Search these pages",
}
html_sidebars = {name: [] for name in ("index", "start", "gallery", "faq")}
html_context = {"default_mode": "auto"}
templates_path = ["_templates"]

copybutton_exclude = ".linenos, .gp, .go"

# The plain text of every page (`-b markdown`): of what a cell shows, the text.
nb_mime_priority_overrides = [("markdown", "text/plain", 0)]


def _without_this_machine(_: Any, doctree: nodes.document) -> None:
    """Paths that notebooks print begin where they ran, and not in a folder that only this build has had."""
    place = re.compile(rf"{re.escape(str(Path(tempfile.gettempdir()).resolve()))}/\w+/")
    for block in doctree.findall(nodes.literal_block):
        for text in list(block.findall(nodes.Text)):
            if place.search(text):
                text.parent.replace(text, nodes.Text(place.sub("", text)))


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("doctree-read", _without_this_machine)
