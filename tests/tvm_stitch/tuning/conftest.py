"""No model is shipped for the CPU that tests run on, whichever it is."""

from __future__ import annotations

import pytest

from tvm_stitch.tuning.model import kept


@pytest.fixture(autouse=True)
def shipped(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("shipped")
    monkeypatch.setattr(kept, "_SHIPPED", folder)
    return folder
