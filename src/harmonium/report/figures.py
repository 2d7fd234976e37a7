"""Embed figures in a page: plots as inline SVG in the colors of the page, images as PNG."""

from __future__ import annotations

import base64
import io
import re

import matplotlib
import numpy as np
from markupsafe import Markup, escape
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import Formatter, LogFormatterMathtext

from ..extras import require
from ..plots import style

_MARKUP, _POWER = re.compile(r"^\$\\mathdefault\{(.*)\}\$$"), re.compile(r"\^\{([-−\d.]+)\}")
_SUPERSCRIPTS = str.maketrans("-−0123456789", "⁻⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_IDS = re.compile(r'(\bid="|url\(#|xlink:href="#|\bhref="#)')


def svg(figure: Figure, name: str, alt: str) -> Markup:
    """Return a figure as SVG. Text stays text; ``name`` is a prefix that makes ids unique in the page."""
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        _prepare(figure)
        buffer = io.StringIO()
        # savefig would draw everything twice, the first time only to place the parts, which is done
        FigureCanvasSVG(figure).print_svg(buffer, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(
        r'<svg[^>]*viewBox="([^"]*)"[^>]*>', rf'<svg viewBox="\1" role="img" aria-label="{escape(alt)}">', text, count=1
    )
    text = _IDS.sub(rf"\g<1>{name}-", text).replace(style.INK, "currentColor")
    return Markup(re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", text).replace("xlink:href", "href"))


def _prepare(figure: Figure) -> None:
    """Place all parts once, on no background, and write powers of ten without mathematical markup, which is fast."""
    for patch in (figure.patch, *(ax.patch for ax in figure.axes)):
        patch.set(facecolor="none", edgecolor="none")
    for axis in (axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)):
        major, minor = axis.get_major_formatter(), axis.get_minor_formatter()
        if isinstance(major, LogFormatterMathtext):
            axis.set_major_formatter(Powers(major))
        if isinstance(minor, LogFormatterMathtext):
            axis.set_minor_formatter(Powers(minor))
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine("none")


class Powers(Formatter):
    """Labels of a logarithmic axis as plain text.

    >>> plain(r"$\\mathdefault{2\\times10^{-3}}$"), plain("")
    ('2×10⁻³', '')
    """

    def __init__(self, labels: Formatter) -> None:
        self.labels = labels

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Return the label at x."""
        return plain(self.labels(x, pos))

    def set_locs(self, locs: list[float]) -> None:
        """Pass on the places of the ticks, which decide whether those between powers are labeled."""
        self.labels.set_axis(self.axis)
        self.labels.set_locs(locs)


def plain(label: str) -> str:
    """Return a label of powers in mathematical markup as plain text."""
    body = _MARKUP.sub(r"\1", label).replace(r"\times", "×")
    return _POWER.sub(lambda match: match[1].translate(_SUPERSCRIPTS), body)


def png(picture: np.ndarray, alt: str) -> Markup:
    """Return an RGBA image (height, width, 4) of bytes as an ``<img>`` element with embedded data."""
    Image = require("PIL.Image", "images in a report need")
    buffer = io.BytesIO()
    Image.fromarray(picture).quantize(256, method=Image.Quantize.FASTOCTREE).save(buffer, format="png", optimize=True)
    code = base64.b64encode(buffer.getvalue()).decode()
    height, width = picture.shape[:2]
    element = '<img class="tiles" alt="{}" width="{}" height="{}" src="data:image/png;base64,{}">'
    return Markup(element).format(alt, width, height, code)
