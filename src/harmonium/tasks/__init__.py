"""Applications of a trained machine: denoising, missing values, classification, mutations, topics and retrieval.

>>> import torch, harmonium as hm
>>> rbm = hm.RBM(hm.units.Spin(4), hm.units.Bernoulli(2))
>>> channel = BinarySymmetric(0.1, values=(-1, 1))
>>> denoise(rbm, channel.corrupt(torch.ones(5, 4), seed=0), channel).rounded.shape
torch.Size([5, 4])
"""

from .baselines import Pointwise, nearest_neighbors
from .channels import AdditiveGaussian, BinarySymmetric, Channel, Erasure
from .comparison import DenoisingCurves, compare_denoisers
from .completion import completion_perplexity, halves, next_word
from .denoising import denoise
from .finetuning import Classifier, finetune
from .imputation import impute
from .mutational_scan import mutations
from .networks import to_sequential
from .observed import Evidence
from .posterior import Posterior
from .retrieving import Retrieval, retrieval
from .scores import Score, mcc, mse
from .topic_words import Topic, topics

__all__ = [
    "AdditiveGaussian",
    "BinarySymmetric",
    "Channel",
    "Classifier",
    "DenoisingCurves",
    "Erasure",
    "Evidence",
    "Pointwise",
    "Posterior",
    "Retrieval",
    "Score",
    "Topic",
    "compare_denoisers",
    "completion_perplexity",
    "denoise",
    "finetune",
    "halves",
    "impute",
    "mcc",
    "mse",
    "mutations",
    "nearest_neighbors",
    "next_word",
    "retrieval",
    "to_sequential",
    "topics",
]
