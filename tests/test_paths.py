"""Paths that cannot be resolved are errors that state why."""

from __future__ import annotations

import os

import pytest
import torch

import harmonium as hm
from harmonium import paths
from harmonium.errors import DataNotFound, InvalidOption

ROWS = torch.eye(2)


def test_a_loop_of_links(tmp_path):
    link = tmp_path / "a"
    link.symlink_to(link)
    with pytest.raises(DataNotFound, match="found a loop of symbolic links"):
        paths.resolved(link)


def test_a_deleted_current_folder(tmp_path, monkeypatch):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(DataNotFound, match=r"expected a file at mine\.csv, found that the current folder was deleted"):
        paths.resolved("mine.csv")


def test_a_folder_that_does_not_exist(tmp_path):
    assert paths.resolved(tmp_path / "no" / "file") == tmp_path.resolve() / "no" / "file"


@pytest.mark.parametrize("use", [hm.load, hm.Run, hm.data.read, lambda path: hm.fit(hm.RBM(2, 2), ROWS, run=path)])
def test_a_name_that_is_not_utf8(use):
    with pytest.raises(InvalidOption, match=r"expected a name in UTF-8, found 'run.*dcff'; rename it"):
        use(os.fsdecode(b"run\xff"))
