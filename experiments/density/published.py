"""Published test log-likelihoods in nats, by data set.

The rows of the five sets of Larochelle & Murray (2011) are those of the table in Germain et al. (2015); the RBM there
had about 23 hidden units, so that ln Z could be enumerated. Numbers of RBMs on MNIST are estimates of ln Z from one
side. ``docs/density.md`` says which of the numbers were compared with a source.
"""

from __future__ import annotations

_TABLE = "Germain et al. 2015"
_NADE_SETS = {
    #           mixture, RBM, FVSBN, NADE
    "adult": (-20.44, -16.26, -13.17, -13.19),
    "dna": (-98.19, -96.74, -83.64, -84.81),
    "mushrooms": (-14.46, -15.15, -10.27, -9.81),
    "nips": (-290.02, -277.37, -276.88, -273.08),
    "ocr-letters": (-40.56, -43.05, -39.30, -27.22),
}
_MODELS = ("mixture of Bernoulli distributions", "RBM, about 23 hidden units", "FVSBN", "NADE")

_EONADE = {"dna": -82.31, "mushrooms": -9.68}

#: hidden Chow-Liu trees with 100 latent states (Suresh et al. 2026, arXiv:2608.12869, table 2): the better of two rows
_HCLT = {
    **{"nltcs": -6.00, "plants": -12.67, "baudio": -39.62, "jester": -52.82, "bnetflix": -56.21},
    **{"accidents": -26.55, "pumsb-star": -22.75},
}

#: name of the model: test log-likelihood
PUBLISHED: dict[str, dict[str, float]] = {
    **{
        name: {f"{model} ({_TABLE})": value for model, value in zip(_MODELS, row, strict=True)}
        | ({"EoNADE (Uria et al. 2014)": _EONADE[name]} if name in _EONADE else {})
        for name, row in _NADE_SETS.items()
    },
    **{name: {"HCLT (Suresh et al. 2026)": value} for name, value in _HCLT.items()},
    "binarized-mnist": {
        "RBM, 500 hidden units (Salakhutdinov & Murray 2008)": -86.34,
        "RBM, 2000 hidden units (Côté & Larochelle 2016)": -85.03,
        "NADE (Larochelle & Murray 2011)": -88.33,
        "EoNADE, 128 orders (Uria et al. 2014)": -85.10,
    },
    "caltech-silhouettes": {"RBM, 4000 hidden units (Cho et al. 2013)": -107.78},
}

#: goals of this library, which no paper states
GOALS = {"nltcs": -6.00, "binarized-mnist": -85.0}
