"""The first page of the gallery: a small picture of each plot, with a link to the code that made it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from site_blocks import Block, Executed, picture_name

#: a section of the gallery that shows a function of ``hm.plots``
HEADING = re.compile(r"^## `?(\w+)`?$", re.MULTILINE)


def shown(text: str) -> list[str]:
    """Return the names of the plots on a page of the gallery.

    >>> shown("# Samples\\n## tiles\\ntext\\n## `samples`\\n")
    ['tiles', 'samples']
    """
    return HEADING.findall(text)


def thumbnails(pages: list[Executed]) -> str:
    """Return links with small pictures, one for each plot, in the order of the pages."""
    links = [
        f'[![{name}](../{picture}){{ title="{name}" }} {name}]({page.name.removeprefix("gallery/")}.md#{name})'
        for page in pages
        for name, picture in _pictures(page)
    ]
    return '\n<div class="thumbnails" markdown>\n\n' + "\n".join(links) + "\n\n</div>\n"


def _pictures(page: Executed) -> Iterator[tuple[str, str]]:
    """The name of each plot of a page and its first picture."""
    name, k = None, 0
    for piece in page.pieces:
        if isinstance(piece, Block):
            if name is not None and piece.pictures:
                yield name, picture_name(page.name, k, 0, piece.pictures[0][0])
                name = None
            k += 1
        elif found := shown(piece):
            name = found[-1]
