"""Reading documents: every format, what is left out, and errors with file and line."""

from __future__ import annotations

import gzip

import pytest
import torch

import harmonium as hm
from harmonium.data import read_documents

TEXT = "The sun, the SUN and a moon.\n\nMoon and stars!\n42 of\n"


def test_lines_of_a_text_file(tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text(TEXT)
    mine = read_documents(file)
    assert mine.words == ("and", "moon", "sun", "the", "stars")  # by frequency, then alphabetically
    assert mine.counts.tolist() == [[1, 1, 2, 2, 0], [1, 1, 0, 0, 1]]
    assert mine.names == ("line 1", "line 3")
    assert mine.notes == (f"2 documents without words of the vocabulary left out, the first in {file}, line 2",)
    few = read_documents(file, vocabulary=2, stop_words=["and", "the"])
    assert few.words == ("moon", "sun")
    assert read_documents(file, stop_words="english").words == ("moon", "sun", "stars")
    assert "of" in read_documents(file, pattern=r"[a-z]+").words


def test_a_given_vocabulary_names_unknown_words(tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text(TEXT)
    mine = read_documents(file, vocabulary=["moon", "comet"], stop_words=["the", "and"])
    assert mine.counts.tolist() == [[1, 0], [1, 0]]
    assert f"3 words outside the vocabulary left out, the first in {file}, line 1: 'sun'" in mine.notes


def test_folders_tables_and_compressed_files(tmp_path):
    folder = tmp_path / "docs"
    (folder / "b").mkdir(parents=True)
    (folder / "b" / "two.txt").write_text("moon\nmoon")
    (folder / "one.txt").write_text("sun")
    (folder / "ignored.md").write_text("comet")
    mine = read_documents(folder)
    assert mine.names == ("b/two.txt", "one.txt") and mine.counts.tolist() == [[2, 0], [0, 1]]
    table = tmp_path / "texts.csv"
    table.write_text('name,text\nfirst,"sun, moon"\nsecond,moon\n')
    mine = read_documents(table)
    assert mine.names == ("first", "second") and mine.decode(mine.counts) == ["moon sun", "moon"]
    packed = tmp_path / "mine.txt.gz"
    packed.write_bytes(gzip.compress(TEXT.encode()))
    assert len(read_documents(packed)) == 2


def test_tables_of_counts_keep_their_columns(tmp_path):
    table = tmp_path / "counts.csv"
    table.write_text("sun,moon,star\n1,0,2\n0,0,0\n0,3,0\n")
    mine = read_documents(table)
    assert mine.words == ("sun", "moon", "star") and mine.counts.tolist() == [[1, 0, 2], [0, 3, 0]]
    assert mine.notes == (f"1 document without words of the vocabulary left out, the first in {table}, line 3",)
    assert read_documents(table, vocabulary=2).words == ("moon", "star")
    assert read_documents(table, vocabulary=["star", "comet"]).counts.tolist() == [[2, 0]]


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [("mine.txt", "sun moon\n\nmoon star\n\n\n", 2), ("mine.csv", 'text\nsun moon\n""\nmoon star\n\n', 3)],
)
def test_an_empty_document_is_noted_with_its_line(tmp_path, name, text, line):
    file = tmp_path / name
    file.write_text(text)
    mine = hm.data.read_documents(file)
    assert len(mine) == 2
    assert mine.notes == (f"1 document without words of the vocabulary left out, the first in {file}, line {line}",)


def test_messages_about_long_words_are_short(tmp_path):
    (tmp_path / "counts.csv").write_text(f"{'sun' * 5000},moon\n1,{'x' * 5000}\n")
    with pytest.raises(hm.errors.InvalidData) as error:
        read_documents(tmp_path / "counts.csv")
    assert "of the word 'moon', found 'xxx" in str(error.value) and len(str(error.value)) < 300


def test_uci_bag_of_words(tmp_path):
    file = tmp_path / "docword.mine.txt"
    file.write_text("2\n3\n3\n1 1 2\n1 3 1\n2 2 5\n")
    (tmp_path / "vocab.mine.txt").write_text("sun\nmoon\nstar\n")
    mine = read_documents(file)
    assert mine.words == ("sun", "moon", "star") and mine.counts.tolist() == [[2, 0, 1], [0, 5, 0]]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("empty.txt", "\n", "expected documents"),
        (
            "numbers.txt",
            "\n1 2\n3\n",
            r"numbers.txt, line 1: expected a document with words, found none in this",
        ),
        ("empty.csv", 'name,text\na,""\nb," "\n', r"empty.csv, line 2: expected a document with words"),
        ("zeros.csv", "sun,moon\n0,0\n", r"zeros.csv, line 2: expected a document with words of the vocabulary"),
        ("docword.x.txt", "0\n2\n0\n", r"docword.x.txt, line 1: expected at least one document, found 0"),
        ("docword.x.txt", "2\n3\nmany\n", r"docword.x.txt, line 3: expected a whole number, found 'many'"),
        ("docword.x.txt", "1\n2\n1\n1 7 1\n", r"line 4: expected a word from 1 to 2, found 7"),
        ("docword.x.txt", "1\n2\n1\n1 1\n", r"line 4: expected 3 whole numbers \(document, word, count\), found '1 1'"),
        ("docword.x.txt", "1\n2\n2\n1 1 1\n", r"expected 2 lines after the header as in line 3, found 1"),
        ("docword.x.txt", "1\n3\n1\n1 1 1\n", r"vocab.x.txt: expected 3 words as in line 2 of docword.x.txt, found 2"),
        ("counts.csv", "sun,moon\n1,-1\n", r"line 2: expected a count \(0, 1, 2, …\) of the word 'moon', found '-1'"),
        ("counts.csv", "sun,moon\n1,2,3\n", r"line 2: expected 2 columns as in the first line, found 3"),
        ("counts.csv", "1,2\n1,2\n", r"line 1: expected a header of different words, found 1, 2"),
        ("texts.csv", "name,text\na\n", r"line 2: expected 2 columns"),
        ("mine.doc", "sun", "file extension of documents '.doc'"),
    ],
)
def test_errors_name_file_and_line(name, text, words, tmp_path):
    (tmp_path / name).write_text(text)
    (tmp_path / "vocab.x.txt").write_text("sun\nmoon\n")
    with pytest.raises(hm.errors.HarmoniumError, match=words):
        read_documents(tmp_path / name)


def test_missing_files_and_wrong_options(tmp_path):
    with pytest.raises(hm.errors.DataNotFound, match="found no file"):
        read_documents(tmp_path / "absent.txt")
    (tmp_path / "docword.y.txt").write_text("1\n1\n1\n1 1 1\n")
    with pytest.raises(hm.errors.DataNotFound, match=r"expected the words in vocab.y.txt"):
        read_documents(tmp_path / "docword.y.txt")
    with pytest.raises(hm.errors.InvalidData, match=r"expected \.txt files in the folder"):
        (tmp_path / "none").mkdir()
        read_documents(tmp_path / "none")
    (tmp_path / "mine.txt").write_text(TEXT)
    for options, words in (
        ({"vocabulary": 0}, "at least one word, found 0"),
        ({"vocabulary": ["sun", "sun"]}, "expected different words, found 1 among 2"),
        ({"stop_words": "klingon"}, "unknown list of stop words 'klingon'"),
        ({"pattern": "["}, "expected a regular expression"),
    ):
        with pytest.raises(hm.errors.InvalidOption, match=words):
            read_documents(tmp_path / "mine.txt", **options)


def test_samples_are_returned_as_words_and_read_again(tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text(TEXT)
    mine = read_documents(file)
    written = tmp_path / "again.txt"
    written.write_text("\n".join(mine.decode(mine.counts.double())) + "\n")
    assert torch.equal(read_documents(written, vocabulary=mine.words).counts, mine.counts)
    assert torch.equal(mine.encode("Stars, the sun! comet"), torch.tensor([[0, 0, 1, 1, 1]], dtype=torch.int32))
    with pytest.raises(hm.errors.InvalidData, match=r"expected the shape \(n, 5\), found \(1, 2\)"):
        mine.decode(torch.ones(1, 2))
