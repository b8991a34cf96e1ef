"""Sphinx's settings. `make docs` builds the site in build/docs/html; docs/site/build.py says how."""

import sys
import warnings
from os.path import relpath
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import mercer
from source_pages import linkcode_resolve  # noqa: F401 - Sphinx asks for it by this name
from stage import GALLERY, ROOT

project = "Mercer"
author = "The Mercer developers"
copyright = "the Mercer developers"
release = version = mercer.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.linkcode",
    "sphinx_gallery.gen_gallery",
    "sphinx_design",
    "sphinx_copybutton",
    "mathml",
    "docstrings",
    "source_pages",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["gallery/**/GALLERY_HEADER.rst"]
highlight_language = "text"
templates_path = ["templates"]

html_theme = "furo"
html_title = "Mercer"
html_static_path = ["static"]
html_css_files = ["mercer.css"]
html_show_sourcelink = False
html_copy_source = False
html_math_renderer = "mathml"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0072b2", "color-brand-content": "#005f94"},
    "dark_css_variables": {"color-brand-primary": "#5ab4ee", "color-brand-content": "#7cc3f2"},
    "top_of_page_buttons": [],
    "footer_icons": [],
}

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
# Links to pages that are made beside the documents: of source files, of the gallery (docs/site/stage.py).
myst_url_schemes = {"http": None, "https": None, "site": "{{path}}#{{fragment}}"}

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
add_module_names = True

copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True

_source = ROOT / "build" / "docs" / "source"
sphinx_gallery_conf = {
    "examples_dirs": [relpath(GALLERY, _source)],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"\.py$",
    "reset_modules": ("drawing.set_style",),
    "image_srcset": ["2x"],
    "capture_repr": (),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "plot_gallery": True,
    "remove_config_comments": True,
    "within_subsection_order": "FileNameSortKey",
    "nested_sections": False,
}

# Warnings of examples are theirs; those of Sphinx itself are errors (build.py gives -W).
warnings.filterwarnings("ignore", category=UserWarning, module="matplotlib")
