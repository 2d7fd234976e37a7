"""Helpers that write HTML. All text goes through :func:`escape`; parameters that are markup are named as such."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from typing import Any

#: scripts, frames, forms and everything from elsewhere are forbidden; styles and images are in the page itself
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def escape(text: Any) -> str:
    """Escape text for HTML.

    >>> escape('<a href="x">')
    '&lt;a href=&quot;x&quot;&gt;'
    """
    return html.escape(str(text), quote=True)


def figure(content: str, title: str, shows: str, good: str, bad: str) -> str:
    """Return a figure with title, caption, and how a good and a bad one look. ``content`` is markup."""
    return (
        f"<figure><figcaption><h3>{escape(title)}</h3><p>{escape(shows)}</p></figcaption>{content}"
        f'<p class="judge"><span><b class="good">Good</b> {escape(good)}</span> '
        f'<span><b class="bad">Bad</b> {escape(bad)}</span></p></figure>'
    )


def section(title: str, name: str, parts: Iterable[str]) -> str:
    """Return a section of the page, or an empty string if it has no content. ``parts`` are markup."""
    content = "\n".join(part for part in parts if part)
    return f'<section id="{escape(name)}"><h2>{escape(title)}</h2>\n{content}</section>' if content else ""


def facts(rows: Mapping[str, Any]) -> str:
    """Return a list of names and values."""
    cells = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in rows.items())
    return f'<dl class="facts">{cells}</dl>'


def cards(rows: Iterable[tuple[str, str, str]]) -> str:
    """Return the key numbers: (value, name, remark) each."""
    cells = "".join(
        f"<li><strong>{escape(value)}</strong> <span>{escape(name)}</span> <small>{escape(word)}</small></li>"
        for value, name, word in rows
    )
    return f'<ul class="cards">{cells}</ul>'


def table(columns: Iterable[str], rows: Iterable[Iterable[Any]], caption: str) -> str:
    """Return a table that scrolls horizontally on a small screen."""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    body = ""
    for first, *rest in rows:
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        body += f'<tr><th scope="row">{escape(first)}</th>{cells}</tr>\n'
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
