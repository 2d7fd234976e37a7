"""Recipes: a run in plain words (a TOML file, options of the command line) and what they mean."""

from .config import Config
from .setup import Setup, prepare, read_config, reopen, train

__all__ = ["Config", "Setup", "prepare", "read_config", "reopen", "train"]
