"""Jupyter notebooks of executed pages: the text, the code and the results of the same run as on the page."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from site_blocks import Block, Executed

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:)[^)]*\)")
_MIME = {".png": "image/png", ".gif": "image/gif"}


def notebook(page: Executed) -> str:
    """Return a page as a notebook of format 4.5, with the results of its blocks.

    >>> from site_blocks import parsed
    >>> cells = json.loads(notebook(parsed("a", "# Title\\n```python\\n1 + 1\\n```\\n")))["cells"]
    >>> [cell["cell_type"] for cell in cells]
    ['markdown', 'code']
    """
    cells: list[dict[str, Any]] = []
    for piece in page.pieces:
        if isinstance(piece, Block):
            cells.append(_code(piece, len(cells)))
        elif piece.strip():
            text = _LINK.sub(r"\1", piece.strip())  # other pages are not beside the notebook
            cells.append({"cell_type": "markdown", "id": f"cell-{len(cells)}", "metadata": {}, "source": text})
    count = 0
    for cell in cells:
        if cell["cell_type"] == "code":
            count += 1
            cell["execution_count"] = count
            for output in cell["outputs"]:
                if output["output_type"] == "execute_result":
                    output["execution_count"] = count
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    document = {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _code(block: Block, number: int) -> dict[str, Any]:
    code = block.code.rstrip()
    if block.title:
        code = f"%%writefile {block.title}\n{code}"
    elif block.language == "sh":
        code = "\n".join(f"!{line}" if line.strip() and not line.startswith("#") else line for line in code.split("\n"))
    outputs: list[dict[str, Any]] = []
    if block.text:
        outputs.append({"output_type": "stream", "name": "stdout", "text": block.text + "\n"})
    for suffix, content in block.pictures:
        data = {_MIME[suffix]: base64.b64encode(content).decode(), "text/plain": "picture"}
        outputs.append({"output_type": "execute_result", "data": data, "metadata": {}, "execution_count": None})
    return {
        "cell_type": "code",
        "id": f"cell-{number}",
        "metadata": {},
        "execution_count": None,
        "source": code,
        "outputs": outputs,
    }
