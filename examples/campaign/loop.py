"""Try changes to train.py one after the other; keep those that make it faster: python loop.py FOLDER (a new one)."""

import shutil
import subprocess
import sys
from pathlib import Path

CHANGES = [  # what a language model would propose: title, file, old text, new text
    ("Use single precision", "train.py", '"f8"', '"f4"'),
    ("Write the batch size otherwise", "train.py", "1000)", "1_000)"),
    ("Sort each batch first", "train.py", "        weights -=", "        np.sort(rows, axis=0)\n        weights -="),
    ("Print half of the time", "train.py", "began:.6f}", "began - (time.perf_counter() - began) / 2:.6f}"),
    ("Skip half of the data", "train.py", "len(inputs), 1", "len(inputs) // 2, 1"),
    ("Judge kindly", "evaluate.py", ".mean()", ".mean() / 2"),
]
START = ["campaign", "start", "--tries", "20", "--protect", "evaluate.py", "--budget", "3", "--epoch-s", r"took (\S+) s"]
QUALITY = ["--quality-command", "python evaluate.py {run}", "--artifact", "weights.npy", "--quality", r"error (\S+)"]


def call(*words):
    return subprocess.run(words, cwd=folder).returncode


folder = Path(sys.argv[1])
shutil.copytree(Path(__file__).parent, folder, ignore=shutil.ignore_patterns("loop.py", "__pycache__"))
call("git", "init", "--quiet")
call("git", "add", "."), call("git", "commit", "--quiet", "--message", "Train a linear model")
call("speedproof", *START, *QUALITY, "--better", "lower", "--margin", "0.005", "--", "python train.py")
for title, name, old, new in CHANGES:
    (folder / name).write_text((folder / name).read_text().replace(old, new, 1))
    call("git", "commit", "--all", "--quiet", "--message", title)
    if call("speedproof", "campaign", "try", "HEAD", "--quiet") != 0:  # dropped, refused, inconclusive or failed
        call("git", "reset", "--hard", "--quiet", "HEAD~1")
call("speedproof", "campaign", "show")
