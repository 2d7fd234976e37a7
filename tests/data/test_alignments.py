"""Aligned sequences in all formats, their alphabets, and errors that name file and line."""

from __future__ import annotations

import gzip

import pytest
import torch

import harmonium as hm
from harmonium import data
from harmonium.data import alphabets
from harmonium.data.alignments import decode, encode
from harmonium.data.sequence_files import holds_sequences
from harmonium.errors import DataNotFound, InvalidData, InvalidOption

NAMES = ("first", "second/1-6", "third")
SEQUENCES = ["MKVLA-", "MRILAW", "-KVLCY"]

FORMATS = {
    "a.fasta": ">first the description\nMKV\nLA-\n>second/1-6\nMRILAW\n\n>third\n-KV LCY\n",
    "a.fa": ">first\nmkvla-\n>second/1-6\nmrilaw\n>third\n-kvlcy\n",
    "dots.fasta": ">first\nMKVLA.\n>second/1-6\nMRILAW\n>third\n.KVLCY\n",
    "a.a2m": ">first\nMK..VLA-\n>second/1-6\nMRggILAW\n>third\n-K.cVLCY\n",
    "a.a3m": ">first\nMKVLA-\n>second/1-6\nMRggILAW\n>third\n-KcVLCY\n",
    "a3m-inside.fasta": ">first\nMKVLA-\n>second/1-6\nMRggILAW\n>third\n-KcVLCY\n",
    "a.sto": "# STOCKHOLM 1.0\n#=GF ID test\nfirst MKVLA-\nsecond/1-6 MRILAW\n#=GR third SS HHHHHH\nthird -KVLCY\n"
    "#=GC RF xxxxxx\n//\n",
    "blocks.sto": "# STOCKHOLM 1.0\n\nfirst      MKV\nsecond/1-6 MRI\nthird      -KV\n\nfirst      LA.\n"
    "second/1-6 LAW\nthird      LCY\n//\n",
    "insertions.sto": "# STOCKHOLM 1.0\nfirst MK..VLA-\nsecond/1-6 MRggILAW\nthird -K.cVLCY\n//\n",
    "stockholm.fasta": "# STOCKHOLM 1.0\nfirst MKVLA-\nsecond/1-6 MRILAW\nthird -KVLCY\n//\n",
    "a.csv": "id,year,Sequence\nfirst,1,MKVLA-\nsecond/1-6,2,MRILAW\nthird,3,-KVLCY\n",
    "a.tsv": "name\tsequence\nfirst\tMKVLA-\nsecond/1-6\tMRILAW\nthird\t-KVLCY\n",
    "no-header.csv": "first,MKVLA-\nsecond/1-6,MRILAW\nthird,-KVLCY\n",
}


@pytest.fixture
def write(tmp_path):
    def to(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return to


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_rows(write, name):
    found = data.read_alignment(write(name, FORMATS[name]))
    assert found.names == NAMES and found.sequences == SEQUENCES
    assert found.rows.shape == (3, 6, 21) and found.rows.dtype == torch.uint8
    assert found.alphabet == "ACDEFGHIKLMNPQRSTVWY-"
    assert bool((found.rows.sum(-1) == 1).all())


@pytest.mark.parametrize("name", FORMATS)
def test_round_trip_through_fasta_and_gzip(write, name, tmp_path):
    found = data.read_alignment(write(name, FORMATS[name]))
    data.write_fasta(tmp_path / "new.fasta", found.sequences, found.names)
    again = data.read_alignment(write("new.fasta.gz", gzip.compress((tmp_path / "new.fasta").read_bytes())))
    assert again.names == found.names and torch.equal(again.rows, found.rows)
    assert not again.notes


def test_columns_without_names_are_numbered(write):
    assert data.read_alignment(write("a.csv", "sequence\nACDE\nACDF\n")).names == ("1", "2")
    assert data.read_alignment(write("b.csv", "ACDE\nACDF\n")).sequences == ["ACDE", "ACDF"]


def test_long_sequences_are_wrapped(tmp_path):
    text = "ACDEFGHIKL" * 13
    data.write_fasta(tmp_path / "a.fasta", [text, text])
    assert max(map(len, (tmp_path / "a.fasta").read_text().splitlines())) == 60
    found = data.read_alignment(tmp_path / "a.fasta")
    assert found.sequences == [text, text] and found.names == ("1", "2")


def test_insertions_are_noted(write):
    assert data.read_alignment(write("a.a3m", FORMATS["a.a3m"])).notes == ("3 letters of insertions removed",)
    assert data.read_alignment(write("a.sto", FORMATS["insertions.sto"])).notes == ("2 columns of insertions removed",)


def test_lowercase_columns_without_dots_stay(write):
    """Soft-masked sequences have lowercase columns too, but no dots."""
    assert data.read_alignment(write("a.fasta", ">a\nAKlV\n>b\nAKlV\n")).sequences == ["AKLV", "AKLV"]


# -- alphabets ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sequence", "letters"),
    [
        ("ACGUACGU-N", "ACGU-"),
        ("ACGTACGTNA", "ACGT-"),
        ("acgtacgtna", "ACGT-"),
        ("ACGGCAAACC", "ACGT-"),  # neither T nor U
        ("ACGTACGTRY", "ACDEFGHIKLMNPQRSTVWY-"),  # a fifth of the letters are no bases
        ("ACGTACGTAL", "ACDEFGHIKLMNPQRSTVWY-"),
    ],
)
def test_detection(write, sequence, letters):
    assert data.read_alignment(write("a.fasta", f">a\n{sequence}\n")).alphabet == letters


def test_given_alphabets(write):
    path = write("a.fasta", ">a\nACGTU-\n")
    assert data.read_alignment(path, "protein").sequences == ["ACGT--"]
    assert data.read_alignment(path, "rna").sequences == ["ACGUU-"]  # T and U are the same base
    assert data.read_alignment(path, "DNA").sequences == ["ACGTT-"]
    custom = data.read_alignment(write("b.fasta", ">a\nHPPH\n>b\nhhpp\n"), "HP")
    assert custom.sequences == ["HPPH", "HHPP"] and custom.rows.shape == (2, 4, 2)
    case = data.read_alignment(write("c.fasta", ">a\nAaBb\n"), "ABab")
    assert case.sequences == ["AaBb"]


def test_unknown_letters_are_gaps_and_counted(write):
    found = data.read_alignment(write("a.fasta", ">a\nMXBL\n>b\nMKXU\n"))
    assert found.sequences == ["M--L", "MK--"]
    assert found.notes == ("4 letters read as a gap (B, U, X)",)
    assert "4 letters read as a gap (B, U, X)" in repr(found)


@pytest.mark.parametrize("alphabet", ["A", "AA", "", "Ä-"])
def test_alphabets_that_are_none(alphabet):
    with pytest.raises(InvalidOption, match="alphabet: expected protein, rna, dna, or at least two different letters"):
        alphabets.find(alphabet)


# -- errors ---------------------------------------------------------------------------------------------------------

WRONG = {
    "ragged": ("a.fasta", ">a\nACDE\n>b\nAC\nD\n", r"a\.fasta, line 3: expected 4 sites.*'a', found 3 in 'b'"),
    "ragged-a3m": ("a.a3m", ">a\nACDE\n>b\nACdE\n", r"a\.a3m, line 3: expected 4 sites.*found 3"),
    "ragged-sto": ("a.sto", "# STOCKHOLM 1.0\na ACDE\nb ACD\n//\n", r"a\.sto, line 3: expected 4 sites.*found 3"),
    "ragged-csv": ("a.csv", "sequence\nACDE\nACD\n", r"a\.csv, line 3: expected 4 sites.*found 3"),
    "letter": ("a.fasta", ">a\nACDE\n>b\nAC\nD?\n", r"a\.fasta, line 5: expected letters of the protein.*'\?' in 'b'"),
    "digit": ("a.tsv", "name\tsequence\nx\tAC1E\n", r"a\.tsv, line 2: expected letters of the protein.*found '1'"),
    "letter-sto": ("a.sto", "# STOCKHOLM 1.0\na ACDE\na A*DE\n//\n", r"a\.sto, line 3: .*found '\*' in 'a'"),
    "empty": ("a.fasta", "", r"a\.fasta is empty: expected aligned sequences"),
    "blank": ("a.sto", "\n \n", r"a\.sto is empty"),
    "no-header": ("a.fasta", "ACDE\n", r"a\.fasta, line 1: expected a header that begins with '>', found 'ACDE'"),
    "no-sequence": ("a.fasta", ">a\nACDE\n>b\n", r"a\.fasta, line 3: expected a sequence for 'b', found none"),
    "only-gaps": ("a.fasta", ">a\n----\n", "found only gaps"),
    "not-sto": ("a.sto", ">a\nACDE\n", r"a\.sto, line 1: expected '# STOCKHOLM 1\.0', found '>a'"),
    "cut-sto": ("a.sto", "# STOCKHOLM 1.0\na ACDE\n", r"a\.sto, line 2: expected '//'"),
    "two-sto": ("a.sto", "# STOCKHOLM 1.0\na ACDE\n//\n# STOCKHOLM 1.0\n", r"line 4: expected one alignment"),
    "words-sto": (
        "a.sto",
        "# STOCKHOLM 1.0\na AC DE\n//\n",
        r"line 2: expected a name and a sequence, found 'a AC DE'",
    ),
    "no-column": (
        "a.csv",
        "a,b,c\n1,2,ACDE\n",
        r"line 1: expected a column named 'sequence', found the columns a, b, c",
    ),
    "width": (
        "a.csv",
        "name,sequence\nx,ACDE\ny\n",
        r"a\.csv, line 3: expected 2 columns as in the first line, found 1",
    ),
    "no-rows": ("a.csv", "name,sequence\n", "has columns but no rows"),
    "gzip": ("a.fasta.gz", "ACDE", "damaged or not a gzip file"),
    "utf8": ("a.fasta", b">a\n\xff\n", "is not UTF-8 text"),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors_name_file_line_and_expected_value(write, case):
    name, content, message = WRONG[case]
    with pytest.raises(InvalidData, match=message):
        data.read_alignment(write(name, content))


def test_letters_outside_a_given_alphabet(write):
    path = write("a.fasta", ">a\nHPX\n")
    with pytest.raises(InvalidData, match=r"line 2: expected letters of the custom alphabet HP-, found 'X' in 'a'"):
        data.read_alignment(path, "HP-")
    with pytest.raises(InvalidData, match=r"line 2: .* alphabet HP, found '-'"):
        data.read_alignment(write("b.fasta", ">a\nHP-\n"), "HP")


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(DataNotFound, match="expected a file, found no file"):
        data.read_alignment(tmp_path / "a.fasta")
    with pytest.raises(InvalidOption, match=r"unknown file extension '\.pdb'"):
        data.read_alignment(tmp_path / "a.pdb")


def test_which_files_hold_sequences(write):
    assert holds_sequences(write("a.a3m", "")) and holds_sequences(write("a.fasta.gz", ""))
    assert holds_sequences(write("a.csv", "id,seq\nx,AC\n")) and holds_sequences(write("b.csv", "ACD-\nAC-E\n"))
    assert not holds_sequences(write("c.csv", "a,b\n1,2\n")) and not holds_sequences(write("d.csv", "a\n1\n"))
    assert not holds_sequences(write("f.csv", "true\ntrue\n")) and not holds_sequences(write("g.csv", "word\nAC\n"))
    assert not holds_sequences(write("e.csv", "")) and not holds_sequences(write("a.npy", ""))


# -- letters and rows -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("letters", ["ACDEFGHIKLMNPQRSTVWY-", "ACGU-", "ACGT-", "HP"])
def test_decode_and_encode_are_inverse(letters):
    codes = torch.randint(len(letters), (20, 7), generator=torch.Generator().manual_seed(0))
    rows = torch.nn.functional.one_hot(codes, len(letters)).to(torch.uint8)
    assert torch.equal(encode(decode(rows, letters), letters), rows)


def test_reconstructions_are_decoded_to_the_most_probable_letters(write):
    found = data.read_alignment(write("a.fasta", FORMATS["a.fasta"]))
    rbm = hm.RBM(hm.units.Potts(tuple(found.rows.shape[1:])), 2)
    rbm.visible.bias.data.copy_(3 * found.rows[0])
    again = rbm.reconstruct(found.rows)
    assert again.max() < 1 and found.decode(again) == [SEQUENCES[0]] * 3
    with pytest.raises(InvalidData, match=r"states: expected one-hot .* found the sum 2 in row 0, site 1"):
        decode(torch.tensor([[[1.0, 0.0], [1.0, 1.0]]]), "HP")
    with pytest.raises(InvalidData, match=r"states: expected the shape \(n, sites, letters\), found \(2, 2\)"):
        decode(torch.eye(2), "HP")
    with pytest.raises(InvalidData, match="found the sum nan in row 0, site 0"):
        decode(torch.full((1, 1, 2), torch.nan), "HP")


def test_what_an_alignment_does(write):
    found = data.read_alignment(write("a.fasta", FORMATS["a.fasta"]))
    assert len(found) == 3
    assert torch.equal(found.encode("MRILAW")[0], found.row("second/1-6"))
    assert found.decode(found.rows.float().flip(0)) == SEQUENCES[::-1]
    with pytest.raises(InvalidOption, match="name: expected the name of a sequence, such as 'first', found 'x'"):
        found.row("x")
    with pytest.raises(InvalidData, match="expected 6 letters, found 2 in sequence 0"):
        found.encode("MK")
    with pytest.raises(InvalidData, match="found '7' in sequence 1"):
        found.encode(["MRILAW", "MRILA7"])
    with pytest.raises(InvalidData, match="states: expected 21 letters"):
        found.decode(torch.eye(3)[None])
    with pytest.raises(InvalidData, match="names: expected one for each of 1 sequences, found 2"):
        data.write_fasta("never.fasta", ["AC"], ["a", "b"])


def test_nearest_sequence_is_that_with_most_equal_sites(write):
    found = data.read_alignment(write("a.fasta", FORMATS["a.fasta"]))
    index, identity = found.nearest(found.encode(["MKVLAW", "-KVLCA", "MKVLA-"]))
    assert index.tolist() == [0, 2, 0]  # the first has five sites in common with one sequence, four with another
    assert identity.tolist() == [5 / 6, 5 / 6, 1.0]
    with pytest.raises(InvalidData, match=r"states: expected sequences of shape \(6, 21\)"):
        found.nearest(torch.eye(21)[None])


def test_named_data_sets_have_the_same_letters():
    assert alphabets.PROTEIN.letters == data.info("protein-ww").alphabet
    assert alphabets.RNA.letters == data.info("rna-rf00379").alphabet
