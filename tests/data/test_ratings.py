"""Files of ratings: formats, scales, and errors that name file, line and expected value."""

from __future__ import annotations

import gzip

import pytest
import torch

import harmonium as hm
from harmonium.data import RatingTable, read_ratings
from harmonium.data.rating_files import holds_ratings
from harmonium.errors import DataNotFound, InvalidData, InvalidOption

EXPECTED = [("196", "242", 3.0), ("22", "302", 5.0), ("22", "377", 1.0)]

FILES = {
    "u.data": "196\t242\t3\t881250949\n22\t377\t1\t878887116\n22\t302\t5\t891717742\n",
    "ml.inter": "user_id:token\titem_id:token\trating:float\tx:float\n196\t242\t3\t8\n22\t377\t1\t9\n22\t302\t5\t7\n",
    "ratings.csv": "userId,movieId,rating,timestamp\n196,242,3.0,8\n22,377,1.0,9\n22,302,5.0,7\n",
    "other.csv": "rating,when,item,User_ID\n3,8,242,196\n1,9,377,22\n5,7,302,22\n",
    "ratings.dat": "196::242::3::8\n22::377::1::9\n22::302::5::7\n",
    "ratings.tsv": "user\titem\trating\n196\t242\t3\n\n22\t377\t1\n22\t302\t5\n",
}


def listed(table):
    names = zip(table.user.tolist(), table.item.tolist(), table.ratings.tolist(), strict=True)
    return sorted((table.users[u], table.items[i], r) for u, i, r in names)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_formats(name, packed, tmp_path):
    path = tmp_path / (name + (".gz" if packed else ""))
    path.write_bytes(gzip.compress(FILES[name].encode()) if packed else FILES[name].encode())
    table = read_ratings(path)
    assert listed(table) == sorted(EXPECTED)
    assert table.users == ("22", "196") and table.items == ("242", "302", "377")  # numbers in their order
    assert table.values == (1.0, 2.0, 3.0, 4.0, 5.0)
    assert table.user.tolist() == sorted(table.user.tolist())
    if not packed:
        assert holds_ratings(path)


def test_other_tables_are_no_ratings(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("height,width,rating\n1,2,3\n")
    assert not holds_ratings(path)


def test_rows(tmp_path):
    table = RatingTable.of(EXPECTED, values=range(1, 6))
    rows = table.one_hot()
    assert rows.shape == (2, 3, 5) and len(table) == 2
    assert torch.equal(torch.stack([table[0], table[1]]), rows)
    assert torch.equal(rows.sum(-1).bool(), table.rated)
    user, item, _ = rows.nonzero().T
    assert torch.equal(torch.stack([user, item], 1), table.pairs[torch.argsort(3 * table.user + table.item)])
    assert (rows @ table.scale.float()).sum() == table.ratings.sum()
    part = table.subset(torch.tensor([False, True, True]))
    assert part.shape == table.shape and part.users == table.users and len(part.ratings) == 2


def test_reconstructions_are_decoded_to_the_most_probable_rating():
    table = hm.data.RatingTable.of([("ann", "film", 4), ("bob", "film", 2), ("bob", "play", 3)])
    rows = table.one_hot()
    rbm = hm.RBM(hm.units.Ratings(table.shape), 2)
    rbm.visible.bias.data[:, 1] = 1.0  # the second value of the scale, 3
    assert table.decode(rbm.reconstruct(rows)) == [(0, "film", 3.0), (1, "film", 3.0), (1, "play", 3.0)]


def test_training_on_a_table_equals_training_on_its_rows():
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(0, 4, (20, 6), generator=generator)
    ratings = [(u, i, int(codes[u, i])) for u in range(20) for i in range(6) if codes[u, i]]
    table = RatingTable.of(ratings, users=range(20), items=range(6))
    found = []
    for data in (table, table.one_hot()):
        rbm = hm.RBM(hm.units.Ratings(table.shape), 3)
        options = {
            "optimizer": "sgd",
            "learning_rate": 0.1,
            "schedule": "constant",
            "penalties": [],
            "seed": 0,
            "progress": False,
        }
        hm.fit(rbm, data, negative="cd:1", epochs=3, batch_size=5, **options)
        found.append(rbm.weight)
    assert torch.equal(*found)


@pytest.mark.parametrize(
    ("ratings", "scale"),
    [
        ([1, 5, 3, 4], (1, 2, 3, 4, 5)),
        ([0.5, 1.5, 5, 4.5, 1, 2, 4], (0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5)),
        ([0.1, 0.2, 0.4], (0.1, 0.2, 0.3, 0.4)),
        ([0, 1], (0, 1)),
        ([1, 10, 100], (1, 10, 100)),
    ],
)
def test_scales(ratings, scale):
    assert RatingTable.of([(k, "x", r) for k, r in enumerate(ratings)]).values == scale


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("u.data", "1\t2\t3\n1\t3\t6\n", "u.data, line 2: expected a rating of the scale 1, 2, 3, 4, 5, found 6"),
        ("u.data", "1\t2\t3\n1\t3\tfour\n", "u.data, line 2: expected 1, 2, 3, 4, 5 as rating, found 'four'"),
        ("u.data", "1\t2\t3\n1\t3\tnan\n", "u.data, line 2: expected 1, 2, 3, 4, 5 as rating, found 'nan'"),
        ("u.data", "1\t2\t3\n1\t3\n", "u.data, line 2: expected 3 cells, as in line 1, found '1\t3'"),
        ("u.data", "1\t2\t3\n\t3\t4\n", "u.data, line 2: expected 3 cells, as in line 1"),
        ("u.data", "1 2 3\n", "u.data, line 1: expected a user, an item and a rating, found '1 2 3'"),
        (
            "u.data",
            "1\t2\t3\n4\t2\t1\n1\t2\t4\n",
            "line 3: expected one rating of item '2' by user '1', found another in line 1",
        ),
        ("u.data", "\n", "u.data is empty"),
        ("r.csv", "user,item,rating\n", "r.csv has a header but no ratings"),
    ],
)
def test_errors_name_the_line(name, text, words, tmp_path):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InvalidData) as error:
        read_ratings(path, values=range(1, 6))
    assert words in str(error.value)


@pytest.mark.parametrize(
    "rating", ["1" + "0" * 30, "1e300", "1e-300", "9" * 5000, "x" * 5000], ids=lambda text: text[:3]
)
def test_hostile_numbers(rating, tmp_path):
    """Large and long numbers, also as names, use little memory and give short messages."""
    (tmp_path / "a.csv").write_text(f"user,item,rating\n1,1,1\n2,2,{rating}\n3,{'9' * 5000},3\n")
    try:
        assert len(read_ratings(tmp_path / "a.csv").values) <= 3
    except InvalidData as error:
        assert len(str(error)) < 300
    (tmp_path / "b.csv").write_text(f"user,item,rating\n{rating},1,1\n2,2,2\n10,2,2\n")
    assert read_ratings(tmp_path / "b.csv").users[:2] == ("2", "10")


def test_other_errors(tmp_path):
    with pytest.raises(DataNotFound, match="expected a file"):
        read_ratings(tmp_path / "u.data")
    with pytest.raises(InvalidOption, match=r"unknown file extension '\.xls'"):
        read_ratings(tmp_path / "u.xls")
    with pytest.raises(InvalidOption, match="two or more increasing numbers"):
        (tmp_path / "u.data").write_text("1\t1\t1\n")
        read_ratings(tmp_path / "u.data", values=[3, 1])
    with pytest.raises(InvalidData, match=r"u\.data: ratings: expected two or more different values, found 1"):
        read_ratings(tmp_path / "u.data")
    with pytest.raises(InvalidData, match="items: expected all that occur in the ratings, found no '9'"):
        RatingTable.of([(1, 9, 3), (2, 8, 4)], items=[8])
    with pytest.raises(InvalidData, match="expected one rating of item '9' by user '1', found several"):
        RatingTable.of([(1, 9, 3), (1, 9, 4)])
    with pytest.raises(InvalidData, match="ratings: expected 1, 2, 3, found 4"):
        RatingTable.of([(1, 9, 3), (1, 8, 4)], values=[1, 2, 3])
