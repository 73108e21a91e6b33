#!/usr/bin/env python3
"""Writes the golden files of this room with safetensors, transformers and huggingface_hub.

    generate.py          (Python with these and torch; run anywhere; the output is always the same)

*.safetensors    files of safetensors.torch.save_file(..., metadata={"format": "pt"})
expected.json    of each: dtype, shape and bytes of its tensors, as PyTorch has them
verdicts.json    odd files, in hex, and whether safetensors.safe_open takes them
splits.json      random sizes and what huggingface_hub's split makes of them
sharded/         a tiny model saved by transformers' save_pretrained with a small max_shard_size
header_fuzz/     seeds
"""
import hashlib
import json
import pathlib
import random
import shutil
import struct
import sys
import tempfile

import huggingface_hub
import safetensors
import safetensors.torch
import torch
import transformers
from huggingface_hub.serialization._base import split_state_dict_into_shards_factory

HERE = pathlib.Path(__file__).resolve().parent
DTYPES = """float64 float32 float16 bfloat16 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz
float8_e8m0fnu float4_e2m1fn_x2 complex64 int64 int32 int16 int8 uint64 uint32 uint16 uint8""".split()


def as_bytes(tensor):
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).tolist()) if tensor.numel() else b""


def raw(seed, *shape):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)


def golden_tensors():
    every = {}
    for i, name in enumerate(DTYPES):
        dtype = getattr(torch, name)
        for letter in ("b", "a"):
            every["%s.%s" % (letter, name)] = raw(i, 2, 16).view(dtype)
    every["a.bool"] = torch.tensor([[True, False], [False, True]])
    odd_names = {name: torch.full((1,), float(i)) for i, name in enumerate(
        ["", 'q"uote', "back\\slash", "slash/", "tab\t nl\n cr\r bs\b ff\f", "\x01\x1f", "del\x7f",
         "\u00e9", "\u4e2d\u6587", "\U0001f600", "\uffff", "\u2028", "a", "A", "a.10", "a.2", "a.1"])}
    sizes = {"scalar": torch.tensor(2.5), "empty": torch.zeros(0), "empty_rows": torch.zeros(0, 3),
             "empty_columns": torch.zeros(3, 0, dtype=torch.float16), "one": torch.ones(1, 1, 1),
             "many_dims": torch.arange(12, dtype=torch.int64).reshape(1, 2, 1, 3, 1, 2, 1)}
    small = {"norm.weight": torch.tensor([1.0, 2.0], dtype=torch.bfloat16),
             "embed.weight": torch.tensor([[0.5, -1.0], [1.5, 0.25]], dtype=torch.float32)}
    return {"small": small, "every_dtype": every, "odd_names": odd_names, "sizes": sizes, "none": {}}


def header(text, data=b""):
    text = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(text)) + text + data


def odd_files():
    one = '{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'

    def entry(**fields):
        fields = {"dtype": "U8", "shape": [1], "data_offsets": [0, 1], **fields}
        return json.dumps({"a": {k: v for k, v in fields.items() if v is not None}})

    return {
        "nothing": b"", "seven bytes": b"\0" * 7, "no header": b"\0" * 8,
        "length beyond the file": struct.pack("<Q", 99) + b"{}",
        "length 2^63": struct.pack("<Q", 2**63) + b"{}",
        "length 2^64-1": struct.pack("<Q", 2**64 - 1) + b"{}",
        "no tensors": header("{}"), "array": header("[]"), "number": header("1"),
        "cut JSON": header('{"a":'),
        "space in front": header(' {"a":%s}' % one, b"x"),
        "white space behind": header('{"a":%s}\n\t ' % one, b"x"),
        "NUL behind": header('{"a":%s}\0' % one, b"x"), "text behind": header('{"a":%s}x' % one, b"x"),
        "byte order mark": header(b"\xef\xbb\xbf" + ('{"a":%s}' % one).encode(), b"x"),
        "bad UTF-8": header(b'{"a\xc3":' + one.encode() + b"}", b"x"),
        "lone surrogate": header('{"a\\ud800":%s}' % one, b"x"),
        "name twice": header('{"a":%s,"a":%s}' % (one, one), b"x"),
        "field twice": header('{"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"x"),
        "other field twice": header('{"a":{"z":1,"z":1,"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"x"),
        "metadata twice": header('{"__metadata__":{},"__metadata__":{},"a":%s}' % one, b"x"),
        "metadata name twice": header('{"__metadata__":{"a":"1","a":"2"},"a":%s}' % one, b"x"),
        "metadata null": header('{"__metadata__":null,"a":%s}' % one, b"x"),
        "metadata last": header('{"a":%s,"__metadata__":{"k":"v"}}' % one, b"x"),
        "metadata of an int": header('{"__metadata__":{"a":1}}'),
        "metadata of an object": header('{"__metadata__":{"a":{}}}'),
        "metadata array": header('{"__metadata__":[]}'), "metadata string": header('{"__metadata__":"a"}'),
        "NUL in metadata": header('{"__metadata__":{"a":"\\u0000"}}'),
        "NUL in a metadata name": header('{"__metadata__":{"\\u0000":"a"}}'),
        "NUL in a name": header('{"a\\u0000":%s}' % one, b"x"),
        "other field": header(entry(z={"x": [1, {"y": None}]}), b"x"),
        "no dtype": header(entry(dtype=None), b"x"), "no shape": header(entry(shape=None), b"x"),
        "no offsets": header(entry(data_offsets=None), b"x"),
        "entry null": header('{"a":null}'), "entry number": header('{"a":1}'),
        "entry as array": header('{"a":["U8",[1],[0,1]]}', b"x"),
        "unknown dtype": header(entry(dtype="U4"), b"x"), "lower case dtype": header(entry(dtype="u8"), b"x"),
        "dtype a number": header(entry(dtype=8), b"x"),
        "F6_E2M3": header(entry(dtype="F6_E2M3", shape=[4], data_offsets=[0, 3]), b"xxx"),
        "F6_E3M2": header(entry(dtype="F6_E3M2", shape=[4], data_offsets=[0, 3]), b"xxx"),
        "F4": header(entry(dtype="F4", shape=[2, 4], data_offsets=[0, 4]), b"xxxx"),
        "F4 of odd rows": header(entry(dtype="F4", shape=[2, 3], data_offsets=[0, 3]), b"xxx"),
        "F4 of odd count": header(entry(dtype="F4", shape=[3], data_offsets=[0, 2]), b"xx"),
        "F4 scalar": header(entry(dtype="F4", shape=[], data_offsets=[0, 1]), b"x"),
        "scalar": header(entry(shape=[]), b"x"),
        "shape a number": header(entry(shape=1), b"x"), "shape of a float": header(entry(shape=[1.0]), b"x"),
        "shape of a string": header(entry(shape=["1"]), b"x"), "negative size": header(entry(shape=[-1]), b"x"),
        "nested shape": header(entry(shape=[[1]]), b"x"),
        "shape of 2^63": header(entry(shape=[2**63, 2]), b"x"),
        "shape of 2^64": header(entry(shape=[2**64]), b"x"),
        "size overflows": header(entry(dtype="F32", shape=[2**62 + 1, 4], data_offsets=[0, 16]), b"x" * 16),
        "zero after an overflow": header(entry(shape=[2**32, 2**32, 0], data_offsets=[0, 0])),
        "65 dimensions": header(entry(shape=[1] * 65), b"x"),
        "64 dimensions": header(entry(shape=[1] * 64), b"x"),
        "one offset": header(entry(data_offsets=[0]), b"x"),
        "three offsets": header(entry(data_offsets=[0, 1, 1]), b"x"),
        "offset a float": header(entry(data_offsets=[0, 1.0]), b"x"),
        "negative offset": header(entry(data_offsets=[-1, 0]), b"x"),
        "offsets backwards": header(entry(shape=[0], data_offsets=[1, 0]), b"x"),
        "offset 2^64": header(entry(data_offsets=[0, 2**64]), b"x"),
        "too short for its shape": header(entry(shape=[2]), b"x"),
        "too long for its shape": header(entry(shape=[1], data_offsets=[0, 2]), b"xx"),
        "hole in front": header(entry(data_offsets=[1, 2]), b"xx"),
        "tail": header(entry(), b"xx"), "cut off": header(entry()),
        "hole between": header('{"a":%s,"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}}' % one, b"xxx"),
        "overlap": header('{"a":%s,"b":%s}' % (one, one), b"x"),
        "out of order": header('{"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},"a":%s}' % one, b"xx"),
        "empty behind full": header('{"b":%s,"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}' % one, b"x"),
        "empty in the middle": header('{"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},'
                                      '"a":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}}', b"xx"),
        "LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n",
        "HTML": b"<!DOCTYPE html><html><head><title>404</title></head></html>",
    }


def official_verdict(folder, data):
    path = folder / "odd.safetensors"
    path.write_bytes(data)
    try:
        with safetensors.safe_open(str(path), "pt") as f:
            for name in f.keys():
                f.get_tensor(name)
    except Exception as error:
        return str(error).split("\n")[0].replace(str(path), "FILE")
    return "ok"


def splits():
    rng = random.Random(5)
    cases = []
    for _ in range(150):
        limit = rng.choice([1, 10, 100])
        sizes = [rng.randint(0, 2 * limit) if rng.random() < 0.3 else rng.randint(0, max(1, limit // 2))
                 for _ in range(rng.randint(0, 12))]
        split = split_state_dict_into_shards_factory(
            {str(i): size for i, size in enumerate(sizes)}, get_storage_size=lambda size: size,
            filename_pattern="model{suffix}.safetensors", max_shard_size=limit)
        cases.append({"limit": limit, "bytes": sizes, "files": [
            {"name": name, "tensors": [int(key) for key in keys]}
            for name, keys in split.filename_to_tensors.items()]})
    return cases


def sharded(folder):
    torch.manual_seed(7)
    config = transformers.LlamaConfig(hidden_size=16, intermediate_size=24, num_hidden_layers=2,
                                      num_attention_heads=2, num_key_value_heads=1, vocab_size=40,
                                      tie_word_embeddings=False, dtype=torch.bfloat16)
    model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, max_shard_size="3KB")
    for name in ("config.json", "generation_config.json"):
        (folder / name).unlink()
    return {"max_shard_bytes": 3000, "total_parameters": model.num_parameters(),
            "tensors": [{"name": name, "dtype": "bfloat16", "shape": list(tensor.shape)}
                        for name, tensor in model.state_dict().items()]}


def main():
    expected = {}
    for file, tensors in golden_tensors().items():
        safetensors.torch.save_file(tensors, str(HERE / (file + ".safetensors")), metadata={"format": "pt"})
        expected[file] = [{"name": name, "dtype": str(t.dtype)[6:], "shape": list(t.shape),
                           "hex": as_bytes(t).hex()} for name, t in tensors.items()]
    with tempfile.TemporaryDirectory() as scratch:
        verdicts = [{"name": name, "hex": data.hex(), "official": official_verdict(pathlib.Path(scratch), data)}
                    for name, data in odd_files().items()]
    expected["sharded"] = sharded(HERE / "sharded")
    for name, value in (("expected", expected), ("verdicts", verdicts), ("splits", splits())):
        (HERE / (name + ".json")).write_text(json.dumps(value, indent=1) + "\n")

    seeds = HERE / "header_fuzz"
    shutil.rmtree(seeds, ignore_errors=True)
    seeds.mkdir()
    for name, data in odd_files().items():
        if name in ("F4", "other field", "metadata last", "out of order", "overlap", "field twice",
                    "empty in the middle", "64 dimensions", "length 2^63", "size overflows"):
            (seeds / name.replace(" ", "_").replace("^", "")).write_bytes(data)
    shutil.copy(HERE / "small.safetensors", seeds / "small")
    shutil.copy(HERE / "sizes.safetensors", seeds / "sizes")

    lines = ["made by: generate.py with safetensors %s, huggingface_hub %s, transformers %s, torch %s, Python %s"
             % (safetensors.__version__, huggingface_hub.__version__, transformers.__version__,
                torch.__version__, sys.version.split()[0])]
    for path in sorted(HERE.rglob("*")):
        if path.is_file() and path.name not in ("MANIFEST", "generate.py"):
            lines.append("%s  %s" % (hashlib.sha256(path.read_bytes()).hexdigest(), path.relative_to(HERE).as_posix()))
    (HERE / "MANIFEST").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
