#!/usr/bin/env python3
"""Writes what PyTorch's traverse, flatten and unflatten make of small state dicts that are hard.

    generate.py          (Python with torch 2.13; run anywhere)

flatten.txt          a block of lines for each tree and rule. The texts of trees and tensors are
                     those of testing/tree_text.h; flatten_test.cc builds the same trees by name.
cpu_state_dict.txt   what _create_cpu_state_dict makes of tensors: their dtype, shape and strides

Text and not JSON, since the room `state` stands below the one that reads JSON.
"""
import hashlib
import pathlib
import sys

import torch
from torch.distributed import _state_dict_utils as utils
from torch.distributed.checkpoint import _nested_dict as dcp
from torch.distributed.checkpoint import _traverse

HERE = pathlib.Path(__file__).resolve().parent


def t(n):
    return torch.arange(n, dtype=torch.float32)


TREES = {
    "nothing": {},
    "flat": {"weight": t(2), "step": 3, "name": "x"},
    "nested": {"a": {"b": {"c": t(2)}, "d": 1.5}, "e": True},
    "empty_containers": {"d": {}, "l": [], "t": (), "in": {"d": {}, "l": [], "x": 1}, "of": [{}, [], ()]},
    "lists_without_tensors": {"l": [1, 2], "ll": [[1], [2, [3]]], "lt": [(1, 2), (t(1),)], "s": ["a"]},
    "lists_with_tensors": {"l": [1, t(2), None], "ll": [[1], [2, [t(1)]]], "ld": [5, {"k": 6}, {}],
                           "le": [[[{}]], 7]},
    "tuples": {"t": (1, 2), "tt": (t(1), {"a": t(2)}), "n": ((1,), [2, ()])},
    "int_keys": {0: t(1), 10: {1: 2, -3: 4}, "state": {0: {"step": 1}, 1: {"step": 2}}},
    "other_keys": {True: 1, None: {False: 2}, "None": 3},
    "dots": {"a.b": t(1), "c": {"d.e": {"f": 2}, "": 3}, "": {"": 4}},
    "plain_values": {"n": None, "b": b"\x00\xff", "ln": [None], "big": 2**70, "f": -0.0, "s": {"q"}},
    "duplicate_dots": {"a.b": 1, "a": {"b": 2}},
    "duplicate_int": {1: t(1), "1": t(2)},
    "duplicate_index": {"a": [t(1)], "a.0": 2},
    "int_and_text": {1: {"a": 1}, "1": {"b": 2}},
}

# Parts of a tree's flat keys, in an order of their own, for unflattening.
PARTS = {
    "nested": [["e", "a.b.c"], []],
    "lists_with_tensors": [["l.2", "l.0"], ["ll.1.1.0"], ["ld.1.k"], ["le.1", "l.1"]],
    "tuples": [["tt.1.a"], ["t.1"], ["t"], ["n.1.0", "n.0.0"]],
    "int_keys": [["state.1.step", "10.-3"]],
    "other_keys": [["None.False"]],
    "dots": [["c.d.e.f", "a.b"], ["."]],
    "empty_containers": [["in.x"], ["in.l"]],
    "int_and_text": [["1.b"]],
}

RULES = {
    "every_container": (utils._traverse_state_dict, utils._flatten_state_dict, utils._unflatten_state_dict),
    "checkpoint": (_traverse.traverse_state_dict, dcp.flatten_state_dict, dcp.unflatten_state_dict),
}


def text(value):
    if isinstance(value, torch.Tensor):
        return "%s%s/%s+%d of memory+%d" % (
            str(value.dtype).removeprefix("torch."), list(value.shape), list(value.stride()),
            value.storage_offset(), value.untyped_storage().nbytes())
    if isinstance(value, dict):
        return "{%s}" % ", ".join("%s: %s" % (text(k), text(v)) for k, v in value.items())
    if isinstance(value, list):
        return "[%s]" % ", ".join(map(text, value))
    if isinstance(value, tuple):
        return "(%s)" % ", ".join(map(text, value))
    if isinstance(value, set):
        return "set(%s)" % ", ".join(map(text, value))
    if isinstance(value, bytes):
        return "b:" + value.hex()
    if isinstance(value, str):
        return "'%s'" % value
    if isinstance(value, float):
        return "%.17g" % value
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 63:
        return "int:" + value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True).hex()
    return str(value)


def path_text(path):
    return "(%s%s)" % (", ".join(text(p) for p in path), "," if len(path) == 1 else "")


def flatten_blocks():
    for name, tree in TREES.items():
        for rule, (traverse, flatten, unflatten) in RULES.items():
            yield "tree %s %s" % (name, rule)
            yield "is %s" % text(tree)
            leaves = []
            traverse(tree, lambda path, value: leaves.append((path, value)))
            for path, value in leaves:
                yield "leaf %s = %s" % (path_text(path), text(value))
            try:
                flat, mapping = flatten(tree)
            except ValueError as error:
                yield "error %s" % error
                continue
            for key, value in flat.items():
                yield "flat '%s' at %s = %s" % (key, path_text(mapping[key]), text(value))
            for part in PARTS.get(name, []):
                if all(key in flat for key in part) and len(part) < len(flat):
                    made = unflatten({key: flat[key] for key in part}, mapping)
                    yield "part %s = %s" % (", ".join("'%s'" % k for k in part), text(made))


CPU_TENSORS = {
    "0d": torch.tensor(3, dtype=torch.int64),
    "0d_bool": torch.tensor(True),
    "empty": torch.empty(2, 0, 4, dtype=torch.float16),
    "empty_0": torch.empty(0),
    "transposed": t(6).reshape(2, 3).t(),
    "expanded": t(3).expand(2, 3),
    "strided": t(8)[1::2],
    "meta": torch.empty(2, 3, device="meta", dtype=torch.bfloat16),
}


def cpu_lines():
    made = utils._create_cpu_state_dict(CPU_TENSORS)
    for name, tensor in made.items():
        yield "%s %s of %s" % (name, text(CPU_TENSORS[name]).split("/")[0], text(tensor))
    for name in ("0d", "0d_bool", "meta"):  # elsewhere PyTorch leaves what was in memory
        yield "%s zero %s" % (name, bool((made[name] == 0).all()))


def main():
    lines = ["made by: generate.py with torch %s, Python %s" % (torch.__version__, sys.version.split()[0])]
    for name, content in {"flatten.txt": flatten_blocks(), "cpu_state_dict.txt": cpu_lines()}.items():
        data = ("\n".join(content) + "\n").encode()
        (HERE / name).write_bytes(data)
        lines.append("%s  %s" % (hashlib.sha256(data).hexdigest(), name))
    (HERE / "MANIFEST").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
