r"""Mathematics as MathML, which browsers draw themselves: no script, no font and nothing to fetch.

``latex2mathml`` passes on what it does not know, so what it could not convert is a warning here. It sets
a ``\tag{1.2}`` in front of the formula: here that is the number at the right margin.
"""

from __future__ import annotations

import re
from html import escape
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)

# Environments that the converter lacks, by one that it has.
SAME = {"aligned": "split", "gathered": "gather*"}
TAG = re.compile(r"\\tag{([^{}]*)}")
BOLD = re.compile(r'<mn mathvariant="bold">(\d)</mn>')
LOST = re.compile(r"<mi>(&|\\[^<]*)</mi>|mathvariant=\"bold-italic\"")


def mathml(latex: str, display: str, node: nodes.Node) -> str:
    """The formula as a ``<math>`` element that keeps its source for copying."""
    for ours, theirs in SAME.items():
        latex = re.sub(rf"\\(begin|end){{{ours}}}", rf"\\\1{{{theirs}}}", latex)
    try:
        code = convert(latex, display=display)
    except Exception as error:  # noqa: BLE001 - of any kind: the converter has no base class of its own
        logger.warning("formula not converted (%s): %s", error, latex, location=node)
        return f"<code>{escape(latex)}</code>"
    # Browsers draw single letters in bold by their own characters alone.
    code = BOLD.sub(lambda digit: f"<mn>&#x{ord('𝟎') + int(digit[1]):X};</mn>", code)
    lost = LOST.search(code)
    if lost:
        logger.warning("formula converted in part (%s): %s", lost[0], latex, location=node)
    return code


def visit_math(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(mathml(node.astext(), "inline", node))
    raise nodes.SkipNode


def visit_displaymath(self: HTML5Translator, node: nodes.math_block) -> None:
    latex, tag = TAG.sub("", node.astext()), TAG.search(node.astext())
    if r"\\" in latex and r"\begin" not in latex:
        latex = rf"\begin{{split}}{latex}\end{{split}}"
    # The theme would put what comes first at the right, and show a wide formula from its end.
    self.body.append(self.starttag(node, "div", CLASS="math", STYLE="flex-direction: row"))
    self.body.append(mathml(latex, "block", node))
    if tag:
        self.body.append(f'<span class="eqno">({escape(tag[1])})</span>')
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx calls this."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displaymath, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
