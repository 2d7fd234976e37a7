"""Runs: training from a configuration (a TOML file or command-line options) into a run folder."""

from .config import Config
from .machine import from_preset
from .setup import Setup, prepare, read_config, reopen
from .training import train

__all__ = ["Config", "Setup", "from_preset", "prepare", "read_config", "reopen", "train"]
