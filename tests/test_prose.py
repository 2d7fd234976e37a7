"""Source, documentation and examples use American spelling and none of the phrases that the style guide rejects.

A new phrase is one line in ``PHRASES``. A text that must keep one, such as the former name of a key in old files, is
one line in ``EXCEPTIONS``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from architecture import REPOSITORY

#: what is checked, as glob patterns in the repository
CHECKED = (
    "src/**/*.py",
    "src/**/*.css",
    "docs/**/*.md",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "experiments/**/*.py",
    "examples/**/*.py",
    "benchmarks/*.py",
    "benchmarks/*.md",
)

#: stems of verbs in -ise and -isation
_ISE = (
    "binar|character|diagonal|discret|equal|factor|final|general|initial|linear|local|magnet|marginal|maxim|memor|minim"
    "|normal|optim|organ|parametr|penal|polar|quant|random|real|recogn|regular|serial|special|stabil|standard|summar"
    "|symmetr|token|util|vector|visual"
)

#: regular expression of a word or phrase (a space matches any white space), and what to write instead
PHRASES = {
    # British spelling
    rf"\w*(?:{_ISE})is(?:e|es|ed|er|ers|ing|able|ation|ations)": "-ize, -ization",
    r"analys(?:e|ed|er|ing)": "analyze",
    r"\w*centr(?:e|es|ed|ing)": "center, centered, centering",
    r"\w*(?:behavi|col|fav|flav|harb|hon|lab|neighb)our\w*": "-or",
    r"(?:label|model|cancel|signal|travel)l(?:ed|ing)": "one l: labeled, modeling",
    r"\w*grey(?:scale|ish|ed|ing)?": "gray",  # "Greys" is a color map of matplotlib
    r"\w*learnt": "learned",
    r"towards": "toward",
    r"whilst|amongst": "while, among",
    r"artefacts?": "artifact",
    r"fulfils?": "fulfill, fulfills",
    r"licence\w*": "license",
    r"judgement\w*": "judgment",
    # papers by nickname
    r"the TAP paper|the interaction-models paper|the spectral(?:-dynamics)? paper|the differentiable-RBM paper": (
        "authors and year, as in 'Tramel et al. (2018)'"
    ),
    # phrases that need a second reading
    r"to the bit": "bit-for-bit",
    r"what came": "the actual value",
    r"(?:is|are|was|were|be) refused": "raises an error, is rejected",
    r"as it was published": "with the settings of the paper",
    r"at hand": "available",
    r"bears_\w+": "supports_…",
    r"(?:how far|far to) [^.]{0,60}believed?|(?:can|to) be believed|when not to believe": "reliable, reliability",
    r"(?-i:Say what)": "state, show, describe",
    r"of the processor": "CPU",
    r"(?:machine|module|code|library|unit|chain|sampler|function) knows": "has, depends on, records",
    r"by heart": "overfits",
    r"loses its norm": "its partition function diverges",
    r"one's own": "your own, custom",
    r"thereby|therein|thereof|whereby": "plain words",
    r"of its own kind": "of the same type",
}

#: (path, matched text in lower case): why it has to stay
EXCEPTIONS = {
    ("src/harmonium/runs/config.py", "binarise"): "key in files of earlier versions",
    ("src/harmonium/runs/config.py", "initialise"): "key in files of earlier versions",
    ("src/harmonium/runs/config.py", "centred"): "key in files of earlier versions",
    ("src/harmonium/training/checkpoints.py", "optimiser"): "key in files of earlier versions",
    ("src/harmonium/training/checkpoints.py", "centred"): "name in files of earlier versions",
}


def _pattern(phrase: str) -> re.Pattern[str]:
    """Match a phrase as whole words (``_`` separates words), also across line ends and comment signs."""
    spaced = phrase.replace(" ", r"\s+(?:#:?\s+)?")
    return re.compile(rf"(?<![^\W_])(?:{spaced})(?![^\W_])", re.IGNORECASE)


PATTERNS = {_pattern(phrase): instead for phrase, instead in PHRASES.items()}


def problems(text: str, path: str) -> Iterator[str]:
    """Report each phrase in a text as ``path:line: 'phrase' (write: …)``."""
    for pattern, instead in PATTERNS.items():
        for match in pattern.finditer(text):
            found = " ".join(word for word in match[0].split() if not word.startswith("#"))
            if (path, found.lower()) not in EXCEPTIONS:
                yield f"{path}:{text.count(chr(10), 0, match.start()) + 1}: '{found}' (write: {instead})"


def checked() -> list[Path]:
    return sorted({path for pattern in CHECKED for path in REPOSITORY.glob(pattern)})


def test_prose():
    paths = checked()
    if not (REPOSITORY / "README.md").exists():
        pytest.skip("the documentation is not beside the tests")
    assert len(paths) > 100, "too few files found"
    found = [
        problem
        for path in paths
        for problem in problems(path.read_text(encoding="utf-8"), path.relative_to(REPOSITORY).as_posix())
    ]
    assert not found, f"{len(found)} phrases to rewrite:\n" + "\n".join(sorted(found))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The neighbours\nof a grey_value", ["a.py:1: 'neighbours'", "a.py:2: 'grey'"]),
        ("x = initialise_from(y)", ["a.py:1: 'initialise'"]),
        ("Optimiser of the un-normalised weights", ["a.py:1: 'Optimiser'", "a.py:1: 'normalised'"]),
        ("# it resumes to\n# the bit", ["a.py:1: 'to the bit'"]),
        ("Bad data are\n    refused.", ["a.py:1: 'are refused'"]),
        ("Eq. (39) of the TAP paper", ["a.py:1: 'the TAP paper'"]),
        ("how far each order can be believed", ["a.py:1: 'how far each order can be believed'"]),
        ("Of the processor.", ["a.py:1: 'Of the processor'"]),
    ],
)
def test_planted_phrases_are_found(text, expected):
    assert [problem.partition(" (write")[0] for problem in problems(text, "a.py")] == expected


@pytest.mark.parametrize(
    "text",
    [
        "The optimizer initializes the centered weights toward the center.",
        'cmap="Greys"',
        "analysis, analyses, a realistic specialist, precise, otherwise, an exercise",
        "cancellation of labels; the learned model; bit-for-bit; handwritten; beforehand",
    ],
)
def test_good_prose_passes(text):
    assert not list(problems(text, "a.py"))


def test_exceptions_are_needed():
    for path, phrase in EXCEPTIONS:
        assert phrase in (REPOSITORY / path).read_text(encoding="utf-8").lower(), f"{path}: '{phrase}' is not there"
