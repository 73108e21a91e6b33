"""Writes what torch.save writes of a state dict of plain float32 tensors, without torch."""
import argparse
import collections
import contextlib
import io
import itertools
import math
import pickle
import sys
import types
import zipfile


class _Storage:
    """Stands for the bytes of a tensor in a pickle; they lie in a record of their own."""

    def __init__(self, key, count):
        self.key = key
        self.count = count


@contextlib.contextmanager
def _torch_globals():
    """Modules under torch's names, with the two globals that such a pickle refers to."""
    rebuild = type("_rebuild_tensor_v2", (), {"__module__": "torch._utils"})
    float_storage = type("FloatStorage", (), {"__module__": "torch"})
    modules = {each.__module__: types.ModuleType(each.__module__)
               for each in (rebuild, float_storage)}
    for each in (rebuild, float_storage):
        setattr(modules[each.__module__], each.__name__, each)
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield rebuild, float_storage
    finally:
        for name, module in before.items():
            sys.modules.pop(name)
            if module is not None:
                sys.modules[name] = module


def write(path, shapes, data):
    """`shapes`: {name: shape, or a dict or Namespace of such}; `data`: the bytes of each tensor,
    row-major, one after the other."""
    with _torch_globals() as (rebuild, float_storage):
        class Tensor:
            """Pickles as torch pickles a contiguous tensor (torch/_tensor.py, __reduce_ex__)."""

            def __init__(self, key, shape):
                self.key = key
                self.shape = tuple(shape)

            def __reduce__(self):
                strides = tuple(math.prod(self.shape[d + 1:]) for d in range(len(self.shape)))
                return rebuild, (_Storage(self.key, math.prod(self.shape)), 0, self.shape, strides,
                                 False, collections.OrderedDict())

        class Pickler(pickle.Pickler):
            def persistent_id(self, value):
                if isinstance(value, _Storage):
                    return ("storage", float_storage, value.key, "cpu", value.count)
                return None

        keys = itertools.count()

        def tensors(shapes):
            if isinstance(shapes, dict):
                return {name: tensors(inner) for name, inner in shapes.items()}
            if isinstance(shapes, argparse.Namespace):
                return argparse.Namespace(**tensors(vars(shapes)))
            return Tensor(str(next(keys)), shapes)

        out = io.BytesIO()
        Pickler(out, protocol=2).dump(tensors(shapes))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", out.getvalue())
        archive.writestr("archive/byteorder", "little")
        for i, each in enumerate(data):
            archive.writestr("archive/data/%d" % i, each)
        archive.writestr("archive/version", "3\n")
