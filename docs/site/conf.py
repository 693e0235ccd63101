"""Sphinx's settings for `make site`. The pages are prepared by gpucourse.publish.site.build."""

project = "GPU programming in Python"
html_title = project
language = "en-GB"
extensions = ["myst_nb", "sphinx.ext.mathjax"]
exclude_patterns = ["_static"]

# The notebooks come executed and judged.
nb_execution_mode = "off"
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
# Notebooks go from a title to "###" where an exercise opens a section; messages of compilers and
# examples with "…" are no Python.
suppress_warnings = ["myst.header", "misc.highlighting_failure"]

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
# A summary would fetch the pages found, and a browser does not let a page of the file system do so.
html_show_search_summary = False
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"

# One file that needs neither fonts nor other files: pages of the file system may not load fonts
# from a folder beside them in every browser.
mathjax_path = "mathjax.js"


def _reached_by_keyboard(app, pagename, templatename, context, doctree):
    """Let code that is wider than the page scroll with the arrow keys once Tab reaches it."""
    if "body" in context:
        context["body"] = context["body"].replace(
            '<div class="highlight"><pre>', '<div class="highlight"><pre tabindex="0">')


def setup(app):
    app.connect("html-page-context", _reached_by_keyboard)
