"""Applications of a trained machine: denoising, missing values, classes, mutations, topics, retrieval, sequences.

>>> import torch, harmonium as hm
>>> rbm = hm.RBM(hm.units.Spin(4), hm.units.Bernoulli(2))
>>> channel = BinarySymmetric(0.1, values=(-1, 1))
>>> denoise(rbm, channel.corrupt(torch.ones(5, 4), seed=0), channel).rounded.shape
torch.Size([5, 4])
"""

from ..guard import guard
from ..training.autoregression import LinearAutoregression
from .baselines import Pointwise, nearest_neighbors
from .channels import AdditiveGaussian, BinarySymmetric, Channel, Erasure
from .classifiers import Classifier
from .comparison import DenoisingCurves, compare_denoisers
from .completion import completion_perplexity, halves, next_word
from .denoising import denoise
from .finetuning import FeedforwardClassifier, finetune
from .forecasting import forecast, next_frame
from .imputation import impute
from .labels import LabelClassifier, fit_classifier, label_rbm
from .mutational_scan import mutations
from .networks import to_sequential
from .observed import Evidence
from .posterior import Posterior
from .rating_scores import RatingScores, score_ratings
from .recommendation import Recommendation, predict, rating_probabilities, recommend
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
    "FeedforwardClassifier",
    "LabelClassifier",
    "LinearAutoregression",
    "Pointwise",
    "Posterior",
    "RatingScores",
    "Recommendation",
    "Retrieval",
    "Score",
    "Topic",
    "compare_denoisers",
    "completion_perplexity",
    "denoise",
    "finetune",
    "fit_classifier",
    "forecast",
    "halves",
    "impute",
    "label_rbm",
    "mcc",
    "mse",
    "mutations",
    "nearest_neighbors",
    "next_frame",
    "next_word",
    "predict",
    "rating_probabilities",
    "recommend",
    "retrieval",
    "score_ratings",
    "to_sequential",
    "topics",
]

guard(globals())
