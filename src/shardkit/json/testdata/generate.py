#!/usr/bin/env python3
"""Writes what Python's json module makes of sample.json, and the seeds of parse_fuzz.

    generate.py          (Python 3 alone; run in this folder)
"""
import hashlib
import json
import pathlib
import random
import struct
import sys

HERE = pathlib.Path(__file__).parent


def doubles():
    fixed = [0.0, -0.0, 1.0, -1.0, 0.1, 1e-05, 0.0001, 123456.789, 1e15, 1e16, 1.5e16, 9999999999999998.0,
             1e22, 1e-7, 5e-324, 1.7976931348623157e308, 2.2250738585072014e-308, 3.141592653589793, 100.0]
    rng = random.Random(3)
    while len(fixed) < 300:
        value = struct.unpack("<d", struct.pack("<Q", rng.getrandbits(64)))[0]
        if value == value and abs(value) != float("inf"):
            fixed.append(value)
    return fixed


def main():
    sample = {
        "empty": {}, "list": [], "nested": [[], [{}], {"a": [1, 2]}],
        "words": [None, True, False],
        "ints": [0, -1, 2**31, -2**63, 2**63 - 1, 2**63, 2**64 - 1],
        "doubles": doubles(),
        "text": "quote \" back \\ slash / \b\f\n\r\t \x01\x1f \x7f \u00e9 \u4e2d \u2028 \U0001f600 \uffff",
        "key \u00e9\n": 1, "": "empty name", "z": 1, "a": 2,
    }
    out = {
        "sample.json": json.dumps(sample, ensure_ascii=False, indent=1),
        "sample.pretty.json": json.dumps(sample, indent=2),
        "sample.compact.json": json.dumps(sample, ensure_ascii=False, separators=(",", ":")),
    }
    seeds = {
        "object": '{"a":[1,-2,3.5e7,"x\\u00e9\\ud83d\\ude00"],"b":{"c":null,"d":true}}',
        "python_numbers": '{"a":[NaN,Infinity,-Infinity,"NaN"]}',
        "twice": '{"a":1,"a":2}',
        "deep": "[" * 120 + "]" * 120,
        "big_integer": "[18446744073709551615,18446744073709551616]",
        "header": '{"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}   ',
        "config": '{\n  "architectures": ["LlamaForCausalLM"],\n  "torch_dtype": "float32"\n}\n',
        "bad_utf8": b'["\xc3\x28\xed\xa0\x80"]',
    }
    lines = ["made by: generate.py with Python %s" % sys.version.split()[0]]
    for name, text in out.items():
        (HERE / name).write_bytes(text.encode())
        lines.append("%s  %s" % (hashlib.sha256(text.encode()).hexdigest(), name))
    (HERE / "MANIFEST").write_text("\n".join(lines) + "\n")
    for name, seed in seeds.items():
        (HERE / "parse_fuzz" / name).write_bytes(seed if isinstance(seed, bytes) else seed.encode())


if __name__ == "__main__":
    main()
