"""Writes values.json: what PyTorch finds when it compares two runs of elements.

    python generate.py > values.json

Each case holds the bytes of both runs and, for some tolerances, what torch.isclose says of the exact
values in double precision: how many elements are not close, the first of them and the largest error.
A second case of a dtype leaves out all that is not finite.
"""
import json
import sys

import torch

KINDS = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz",
         "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "complex128", "complex64", "complex32",
         "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"]
TOLERANCES = [(0.0, 0.0), (1e-6, 1e-6), (0.01, 0.02), (0.0, 0.25), (2.0, 0.0)]


def random_run(dtype, count, generator):
    if dtype == torch.bool:
        return torch.randint(0, 2, (count,), generator=generator, dtype=torch.uint8).bool()
    if dtype.is_floating_point and dtype.itemsize > 1 or dtype.is_complex:
        parts = 2 if dtype.is_complex else 1
        real = {torch.complex128: torch.float64, torch.complex64: torch.float32,
                torch.complex32: torch.float16}.get(dtype, dtype)
        values = torch.randn(count * parts, generator=generator, dtype=torch.float64)
        values[::7] = 0
        values[1::50] = float("inf")
        values[2::51] = -float("inf")
        values[3::52] = float("nan")
        values[4::8] *= 1000
        return values.to(real).view(dtype)
    return torch.randint(0, 256, (count * dtype.itemsize,), generator=generator,
                         dtype=torch.uint8).view(dtype)


def bytes_of(run):
    return run.contiguous().view(torch.uint8).numpy().tobytes()


def changed(run, generator):
    """The run with some elements nudged, some replaced, and zeros of the other sign."""
    other = run.clone()
    noise = random_run(run.dtype, len(run), generator)
    if run.dtype.is_floating_point and run.dtype.itemsize > 1:
        other[5::9] = (run[5::9].double() * 1.01 + 0.004).to(run.dtype)
        other[::7] = -other[::7]
    elif run.dtype.is_complex:
        other[5::9] = (run[5::9].to(torch.complex128) * (1.01 + 0.004j)).to(run.dtype)
    data, from_noise = other.view(torch.uint8), noise.view(torch.uint8)
    for i in range(6, len(run), 13):
        size = run.dtype.itemsize
        data[i * size:(i + 1) * size] = from_noise[i * size:(i + 1) * size]
    return other


def pick(run, places):
    """Indexing by their bytes, which every dtype has."""
    return run.view(torch.uint8).view(len(run), -1)[places].reshape(-1).view(run.dtype)


def compare(a, b, atol, rtol):
    """Python's own integers and doubles, so that nothing is rounded on the way."""
    if not (a.dtype.is_floating_point or a.dtype.is_complex):
        pairs = [(int(x), int(y)) for x, y in zip(a.tolist(), b.tolist())]
        errors = [float(abs(y - x)) for x, y in pairs]
        differ = [x != y for x, y in pairs]
    else:
        wide = torch.complex128 if a.dtype.is_complex else torch.float64
        first, second = a.to(wide), b.to(wide)
        differ = (~torch.isclose(second, first, rtol=rtol, atol=atol)).tolist()
        error = (second - first).abs()
        errors = torch.where(error.isfinite(), error, float("inf")).tolist()
    found = [i for i, d in enumerate(differ) if d]
    return {"atol": atol, "rtol": rtol, "count": len(found), "position": found[0] if found else 0,
            "largest": repr(max((errors[i] for i in found), default=0.0))}


def main():
    generator = torch.Generator().manual_seed(7)
    cases = []
    for kind in KINDS:
        dtype = getattr(torch, kind)
        first = random_run(dtype, 200 if dtype.itemsize == 1 else 70, generator)
        if dtype.itemsize == 1 and dtype.is_floating_point:
            first = torch.arange(256, dtype=torch.uint8).repeat(2).view(dtype)
        second = changed(first, generator)
        if dtype.itemsize == 1 and dtype.is_floating_point:  # every value against 1 and itself
            second = first.clone()
            second[256:] = torch.ones(256).to(dtype)
        numbers = torch.complex128 if dtype.is_complex else torch.float64
        finite = (first.to(numbers).isfinite() & second.to(numbers).isfinite()).nonzero()[:, 0]
        for a, b in [(first, second), (pick(first, finite), pick(second, finite))]:
            cases.append({"dtype": kind, "first": bytes_of(a).hex(), "second": bytes_of(b).hex(),
                          "found": [compare(a, b, *tolerance) for tolerance in TOLERANCES]})
            if len(finite) == len(first):
                break
    json.dump({"torch": torch.__version__, "cases": cases}, sys.stdout, indent=1)
    print()


main()
