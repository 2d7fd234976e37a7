"""The page is self-contained, its numbers are correct, and users' strings cannot break it."""

from __future__ import annotations

import base64
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from PIL import Image

import harmonium as hm
from harmonium import report
from harmonium.likelihood import rows as row_module
from harmonium.report import evaluation

VOID = {"meta", "img", "br", "link", "input", "hr"}


class Page(HTMLParser):
    """The elements of a page; fails if tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data):
        self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]


def fit(folder: Path, rbm: hm.RBM, rows: torch.Tensor, **options: object) -> Path:
    hm.fit(rbm, rows, epochs=3, batch_size=10, run=folder, progress=False, validation=rows[:10], **options)
    return folder


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    rows = (torch.rand(40, 12, generator=torch.Generator().manual_seed(0)) < 0.5).float()
    rbm = hm.RBM(hm.units.Bernoulli(12), hm.units.Bernoulli(5))
    folder = fit(tmp_path_factory.mktemp("runs") / "pictures", rbm, rows)
    assert report.write(folder, data=rows, test=rows[:10], image=(1, 3, 4)) == folder / "report.html"
    return folder / "report.html"


@pytest.mark.slow
def test_page_is_whole_and_stands_alone(pictures):
    text = pictures.read_text(encoding="utf-8")
    page = Page(text)
    assert not re.search(r"https?://(?!www\.w3\.org/)", text)
    assert not page.all("script") and not page.all("link") and not page.all("iframe")
    for attributes in page.all("img"):
        assert attributes["src"].startswith("data:image/png;base64,") and attributes["alt"]
    assert "@import" not in text and "url(http" not in text
    assert page.all("html")[0]["lang"] == "en" and page.all("meta")[1]["name"] == "viewport"
    assert "prefers-color-scheme: dark" in text


def test_page_has_its_pictures_with_words(pictures):
    page = Page(pictures.read_text(encoding="utf-8"))
    assert len(page.all("img")) == 4  # data, samples, receptive fields, reconstructions
    assert len(page.all("svg")) == 9  # five curves, activity, weights, samples compared with data, spectrum
    assert len(page.all("figure")) == 13
    for attributes in page.all("svg"):
        assert attributes["role"] == "img" and attributes["aria-label"]
    words = " ".join(page.words)
    for title in ("Data", "Samples", "Receptive fields", "Reconstructions", "Hidden activity", "Weights"):
        assert title in words
    for topic in ("Likelihood", "Sample quality", "Equilibrium", "Spectrum", "Landscape"):
        assert topic in words
    assert words.count("Good") == words.count("Bad") == 13
    assert page.all("h1") and len(page.all("h2")) == 7


def test_ids_of_all_charts_are_different(pictures):
    page = Page(pictures.read_text(encoding="utf-8"))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    used = re.findall(r'(?:url\(#|href="#)([^")]+)', pictures.read_text(encoding="utf-8"))
    assert used and set(used) <= set(ids)


def test_pictures_hold_the_tiles(pictures):
    page = Page(pictures.read_text(encoding="utf-8"))
    data = page.all("img")[0]
    picture = Image.open(io.BytesIO(base64.b64decode(data["src"].split(",")[1])))
    zoom = round(48 / 4)
    assert picture.size == (10 * (4 * zoom + 3) - 3, 4 * (3 * zoom + 3) - 3)
    assert picture.size == (int(data["width"]), int(data["height"]))


@pytest.mark.parametrize(
    "visible",
    [hm.units.Gaussian(6), hm.units.Potts((3, 4)), hm.units.Multinomial(6), hm.units.Poisson(6)],
    ids=lambda unit: unit.name(),
)
@pytest.mark.slow
def test_other_kinds_of_data(tmp_path, visible):
    generator = torch.Generator().manual_seed(0)
    if visible.name() == "potts":
        rows = torch.eye(4)[torch.randint(4, (40, 3), generator=generator)]
    else:
        rows = torch.randint(1, 4, (40, 6), generator=generator).float()
    folder = fit(tmp_path / "run", hm.RBM(visible, hm.units.Bernoulli(3)), rows)
    page = Page(report.write(folder, data=rows, test=rows[:10]).read_text(encoding="utf-8"))
    assert not page.all("img") and len(page.all("svg")) >= 8


@pytest.mark.slow
def test_a_run_without_its_data(tmp_path):
    folder = fit(tmp_path / "run", hm.RBM(hm.units.Bernoulli(4), hm.units.Bernoulli(2)), torch.ones(20, 4))
    words = " ".join(Page(report.write(folder).read_text(encoding="utf-8")).words)
    assert "Samples" in words and "Receptive fields" in words and "Reconstructions" not in words


@pytest.mark.slow
def test_rows_of_another_kind_than_those_of_the_run(pictures):
    before = pictures.read_bytes()
    for rows in (torch.rand(5, 9), torch.ones(0, 12), torch.ones(12), "x", [[1j] * 12]):
        with pytest.raises(hm.errors.HarmoniumError):
            report.write(pictures.parent, data=rows)
        with pytest.raises(hm.errors.HarmoniumError):
            report.write(pictures.parent, data=torch.ones(5, 12), test=rows)
    assert pictures.read_bytes() == before


@pytest.mark.slow
def test_strings_of_the_user_are_escaped(tmp_path):
    nasty = '<script>alert("x")</script>'
    rows = torch.ones(20, 4)
    folder = fit(tmp_path / "<b>run", hm.RBM(hm.units.Bernoulli(4), hm.units.Bernoulli(2)), rows)
    tables = hm.Run(folder).read_config()
    tables["data"]["array"], tables["machine"]["visible"] = nasty, f"bernoulli:4 {nasty}"
    hm.Run(folder).write_config(tables)
    text = report.write(folder, data=rows, test=rows, test_name=nasty).read_text(encoding="utf-8")
    assert not Page(text).all("script") and "<b>run" not in text
    assert "&lt;script&gt;" in text


@pytest.mark.slow
def test_the_page_is_the_same_each_time(pictures, tmp_path):
    before = pictures.read_text(encoding="utf-8")
    rows = (torch.rand(40, 12, generator=torch.Generator().manual_seed(0)) < 0.5).float()
    report.write(pictures.parent, data=rows, test=rows[:10], image=(1, 3, 4))
    assert pictures.read_text(encoding="utf-8") == before


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dbm", "dbn"])
def test_deep_machines_show_every_layer(tmp_path, kind):
    rows = (torch.rand(40, 12, generator=torch.Generator().manual_seed(0)) < 0.5).float()
    layers = [hm.units.Bernoulli(n) for n in (12, 5, 4, 3)]
    deep = hm.DeepBoltzmannMachine(layers) if kind == "dbm" else hm.DeepBeliefNetwork.of(layers)
    hm.fit(deep, rows, epochs=2, batch_size=10, run=tmp_path, progress=False, validation=rows[:10])
    page = Page(report.write(tmp_path, data=rows, test=rows[:10], image=(1, 3, 4)).read_text(encoding="utf-8"))
    words = " ".join(page.words)
    assert ("deep Boltzmann machine" if kind == "dbm" else "deep belief network") + " with 3 hidden layers" in words
    assert len(page.all("img")) == 6  # data, samples, receptive fields of three layers, reconstructions
    for layer in (1, 2, 3):
        assert f"Receptive fields, layer {layer}" in words and f"Hidden activity, layer {layer}" in words
    name = "log-likelihood, exact" if kind == "dbm" else "log-likelihood bound, exact ln Z"  # the DBM is small
    assert name in words and ("Pretraining" in words) == (kind == "dbm")
    if kind == "dbn":
        assert "Reconstruction error, machine 3" in words


@pytest.mark.slow
def test_pretraining_has_its_curves(tmp_path):
    rows = (torch.rand(40, 6, generator=torch.Generator().manual_seed(0)) < 0.5).float()
    deep = hm.DeepBoltzmannMachine([hm.units.Bernoulli(n) for n in (6, 4, 3)])
    hm.fit(deep, rows, plan=hm.Plan(pretrain=2), epochs=1, run=tmp_path, progress=False)
    words = " ".join(Page(report.write(tmp_path, data=rows).read_text(encoding="utf-8")).words)
    assert "Pretraining" in words and "layers 0 and 1" in words and "layers 1 and 2" in words


# -- the numbers ------------------------------------------------------------------------------------------------


def test_evaluation_agrees_with_enumeration():
    rbm = hm.RBM(hm.units.Bernoulli(4), hm.units.Bernoulli(3))
    rbm.initialize(scale=0.7, seed=0)
    train, test = (torch.randint(2, (n, 4), generator=torch.Generator().manual_seed(n)).float() for n in (20, 7))
    table = {row.name: row for row in evaluation.evaluate(evaluation.Subject(rbm, train, test))}
    states, log_p = rbm.distribution()
    index = {tuple(state.tolist()): p.item() for state, p in zip(states, log_p, strict=True)}

    def exact(rows: torch.Tensor) -> float:
        return sum(index[tuple(row.tolist())] for row in rows) / len(rows)

    def pseudo(rows: torch.Tensor) -> float:
        total = 0.0
        for row in rows:
            for i in range(4):
                flipped = row.clone()
                flipped[i] = 1 - row[i]
                here, there = index[tuple(row.tolist())], index[tuple(flipped.tolist())]
                total += here - torch.logaddexp(torch.tensor(here), torch.tensor(there)).item()
        return total / len(rows)

    for rows, side in ((train, "train"), (test, "test")):
        assert getattr(table["log-likelihood, exact"], side) == pytest.approx(exact(rows), abs=1e-5)
        assert getattr(table["pseudo-log-likelihood"], side) == pytest.approx(pseudo(rows), abs=1e-5)
        assert getattr(table["pseudo-log-likelihood per unit"], side) == pytest.approx(pseudo(rows) / 4, abs=1e-5)
    gap = exact(train) - exact(test)  # ⟨F⟩_test - ⟨F⟩_train: ln Z cancels
    assert table["free-energy gap"].test == pytest.approx(gap, abs=1e-5)


def test_evaluation_of_a_deep_machine_is_a_bound(monkeypatch):
    """The bound is below the log-likelihood, and equal to it without the upper coupling; a small machine is exact."""
    deep = hm.DeepBoltzmannMachine([hm.units.Bernoulli(n) for n in (4, 3, 2)]).double()
    deep.initialize(scale=1.0, seed=0)
    rows = torch.randint(2, (20, 4), generator=torch.Generator().manual_seed(0)).double()

    def measured(name: str = "log-likelihood bound, exact ln Z") -> tuple[float, float]:
        table = {row.name: row for row in evaluation.evaluate(evaluation.Subject(deep, rows))}
        top = deep.layers[2].enumerate(torch.arange(4)).double()  # the first hidden layer is summed out
        with torch.no_grad():
            field = deep.couplings[0].up(rows)[:, None] + deep.couplings[1].down(top)[None]
            weight = deep.layers[1].log_partition(field).sum(-1) + deep.layers[2].log_weight(top).sum(-1)
            log_p = torch.logsumexp(weight, 1) + deep.visible.log_weight(rows).sum(-1) - deep.log_partition()
        return table[name].train, log_p.mean().item()

    value, exact = measured("log-likelihood, exact")
    assert value == pytest.approx(exact, abs=1e-9)
    for module in (row_module, evaluation):
        monkeypatch.setattr(module, "sums_hidden", lambda *_: False)  # as for a large machine
    bound, exact = measured()
    assert exact - 0.5 < bound < exact - 1e-6
    (row,) = evaluation.annealed(evaluation.Subject(deep, rows, betas=100))
    assert row.name == "log-likelihood bound, annealed" and row.note.startswith("train at least ")
    assert ", the bound itself between " in row.note and row.note.endswith(": trustworthy")
    torch.nn.init.zeros_(deep.couplings[1].weight)
    bound, exact = measured()
    assert bound == pytest.approx(exact, abs=1e-9)


def test_what_cannot_be_measured_says_why():
    rbm = hm.RBM(hm.units.Gaussian(40), hm.units.Gaussian(30))
    table = {row.name: row for row in evaluation.evaluate(evaluation.Subject(rbm, torch.zeros(5, 40)))}
    for name in ("log-likelihood, exact", "pseudo-log-likelihood"):
        assert table[name].train is None and table[name].note
    assert table["free-energy gap"].test is None and "held-out" in table["free-energy gap"].note
    square = hm.RBM(hm.units.Bernoulli(12), hm.units.Bernoulli(12))
    large = evaluation.exact(evaluation.Subject(square, torch.zeros(1, 12), most_states=100))
    assert large[0].train is None and "4096" in large[0].note


def test_the_annealed_row_is_the_annealed_number(monkeypatch):
    """For a machine that can be enumerated, the row still shows the annealed value and its own verdict."""
    rbm, rows = hm.RBM(hm.units.Bernoulli(4), hm.units.Bernoulli(3)), torch.zeros(3, 4)
    log_z = hm.likelihood.LogPartition(
        machine=rbm,
        value=4.0,
        standard_error=1.0,
        interval=(3.0, 5.0),
        method="both directions",
        problems=("two nats apart",),
        details={"gap": 2.0},
    )
    monkeypatch.setattr(hm.likelihood, "estimate", lambda *_, **__: log_z.log_likelihood(rows))
    (row,) = evaluation.annealed(evaluation.Subject(rbm, rows, rows, betas=10))
    free_energy = rbm.free_energy(rows).mean().item()
    assert row.train == row.test == pytest.approx(-free_energy - 4.0)
    ends = f"between {-free_energy - 5:.2f} and {-free_energy - 3:.2f}"
    assert "gap 2.00: not trustworthy: two nats apart" in row.note and ends in row.note
