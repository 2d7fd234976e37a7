"""Runs: training from a configuration (a TOML file or command-line options) into a run folder."""

from .config import Config
from .setup import Setup, prepare, read_config, reopen
from .training import train

__all__ = ["Config", "Setup", "prepare", "read_config", "reopen", "train"]
