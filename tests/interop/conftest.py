"""Merged folders and processes that several tests use are made once."""
import pytest

import checkpoints


@pytest.fixture(scope="session")
def merged(tmp_path_factory):
    """merged(case, *flags, dtype=...): the folder that a merge of the case left."""
    folders = {}

    def get(case, *flags, dtype="keep"):
        key = (case, flags, dtype)
        if key not in folders:
            out = tmp_path_factory.mktemp("merged") / "out"
            folders[key] = checkpoints.merge(case, out, *flags, dtype=dtype)
        return folders[key]

    return get


@pytest.fixture(scope="session")
def torch_ranks():
    """torch_ranks(size): real PyTorch on gloo (torch_ranks.py)."""
    from torch_ranks import TorchRanks
    started = {}

    def get(size):
        if size not in started:
            started[size] = TorchRanks(size)
        return started[size]

    yield get
    for ranks in started.values():
        ranks.close()
