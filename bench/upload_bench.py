"""Uploads to the stand-in Hub on this machine: shardkit and the official client, in the same run.

    upload_bench.py [--program P] [--python P] [--runs N] [--megabytes N] [--folder F]

    --python   one that has huggingface_hub; without it `make interop`'s is looked for

Each pair sends the same folder (four weight files, a config) to two stand-in Hubs that are empty, once in
one piece a file and once in parts of 64 MiB, in alternating order. Of the official client the seconds are
those of its calls, without the start of Python and the import, which "with its start" adds. The stand-in (tests/hub/) writes what it
gets to the disk and checks its SHA-256, which takes more of the processor than sending does, for
both. Prints a line a run, and the medians.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import measure

ROOT = pathlib.Path(__file__).resolve().parents[1]
TOKEN = "hf_writer"  # of the stand-in
OFFICIAL = """
import sys, time, huggingface_hub
api = huggingface_hub.HfApi()
start = time.monotonic()
api.create_repo("org/model", exist_ok=True)
api.upload_folder(folder_path=sys.argv[1], repo_id="org/model")
open(sys.argv[2], "w").write(str(time.monotonic() - start))
"""


class Hub:
    def __init__(self, folder, part_bytes):
        command = [sys.executable, ROOT / "tests" / "hub" / "stand_in_hub.py", folder]
        if part_bytes:
            command += ["--part-bytes", str(part_bytes)]
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def make_model(folder, megabytes):
    folder.mkdir()
    (folder / "config.json").write_text("{}\n")
    for i in range(4):
        with open(folder / ("model-%05d-of-00004.safetensors" % (i + 1)), "wb") as out:
            for _ in range(megabytes // 4):
                out.write(os.urandom(1_000_000))


def environment(url, home):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "XDG_"))}
    return dict(kept, HOME=str(home), HF_HOME=str(home), HF_ENDPOINT=url, HF_TOKEN=TOKEN,
                HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_TELEMETRY="1",
                HF_HUB_DISABLE_PROGRESS_BARS="1")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=ROOT / "build" / "shardkit")
    parser.add_argument("--python", default=ROOT / "build" / "interop-venv" / "bin" / "python")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--folder", help="where the files go; a temporary folder")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as work:
        work = pathlib.Path(work)
        make_model(work / "model", arguments.megabytes)
        ways = {"shardkit": [arguments.program, "upload", work / "model", "org/model", "--quiet"]}
        if pathlib.Path(arguments.python).exists():
            ways["official"] = [arguments.python, "-c", OFFICIAL, work / "model", work / "seconds"]
        for part_bytes in (None, 64 << 20):
            print("%d MB in %s" % (arguments.megabytes, "parts of 64 MiB" if part_bytes else
                                   "one piece a file"))
            runs = {name: [] for name in ways}
            for i in range(arguments.runs):
                for name in (list(ways) if i % 2 == 0 else list(reversed(ways))):
                    with tempfile.TemporaryDirectory(dir=work) as place, Hub(place, part_bytes) as hub:
                        run = measure.run(ways[name], env=environment(hub.url, work))
                    if name == "official":
                        run.with_start = run.seconds
                        run.seconds = float((work / "seconds").read_text())
                    runs[name].append(run)
                print("  " + "   ".join("%s %.2f s, %.0f MiB" % (name, runs[name][-1].seconds,
                                                                runs[name][-1].peak_bytes / 2**20)
                                        for name in ways), flush=True)
            for name, of in runs.items():
                seconds = statistics.median(run.seconds for run in of)
                print("  %s: median %.2f s, %.0f MB/s, processor %.2f s, peak %.0f MiB" % (
                    name, seconds, arguments.megabytes / seconds,
                    statistics.median(run.cpu_seconds for run in of),
                    max(run.peak_bytes for run in of) / 2**20))
            if len(ways) == 2:
                print("  official with its start: median %.2f s" % statistics.median(
                    run.with_start for run in runs["official"]))
                ratios = [a.seconds / b.seconds for a, b in zip(*runs.values())]
                print("  ratio of the times: median %.2f (%.2f-%.2f)"
                      % (statistics.median(ratios), min(ratios), max(ratios)))


if __name__ == "__main__":
    main()
