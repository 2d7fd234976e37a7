"""Embed figures in a page: plots as inline SVG in the colors of the page, images as PNG."""

from __future__ import annotations

import base64
import io
import re

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from ..extras import require
from ..plots import style
from .html import escape

_IDS = re.compile(r'(\bid="|url\(#|xlink:href="#|\bhref="#)')


def svg(figure: Figure, name: str, alt: str) -> str:
    """Return a figure as SVG. Text stays text; ``name`` is a prefix that makes ids unique in the page."""
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        buffer = io.StringIO()
        figure.savefig(
            buffer, format="svg", transparent=True, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))
        )
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(
        r'<svg[^>]*viewBox="([^"]*)"[^>]*>', rf'<svg viewBox="\1" role="img" aria-label="{escape(alt)}">', text, count=1
    )
    text = _IDS.sub(rf"\g<1>{name}-", text).replace(style.INK, "currentColor")
    return re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", text).replace("xlink:href", "href")


def png(picture: np.ndarray, alt: str) -> str:
    """Return an RGBA image (height, width, 4) of bytes as an ``<img>`` element with embedded data."""
    Image = require("PIL.Image", "images in a report need")
    buffer = io.BytesIO()
    Image.fromarray(picture).quantize(256, method=Image.Quantize.FASTOCTREE).save(buffer, format="png", optimize=True)
    code = base64.b64encode(buffer.getvalue()).decode()
    height, width = picture.shape[:2]
    return (
        f'<img class="tiles" alt="{escape(alt)}" width="{width}" height="{height}" src="data:image/png;base64,{code}">'
    )
