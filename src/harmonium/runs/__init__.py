"""Runs: training from a configuration (a TOML file or command-line options) into a run folder."""

from ..guard import guard
from .config import Config
from .cross_validation import Candidate, Selection, select
from .machine import machine_of
from .setup import Setup, prepare, read_config, reopen
from .training import train

__all__ = [
    "Candidate",
    "Config",
    "Selection",
    "Setup",
    "machine_of",
    "prepare",
    "read_config",
    "reopen",
    "select",
    "train",
]

guard(globals())
