"""Merged folders that several tests look at are made once."""
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
