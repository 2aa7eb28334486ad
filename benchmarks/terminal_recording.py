"""Makes docs/terminal.svg, the picture of a terminal in the README, and the transcript of two proofs that it shows.

PYTHONPATH=. python -m benchmarks.terminal_recording            # runs the commands and prints what they print, two minutes
PYTHONPATH=. python -m benchmarks.terminal_recording --write    # also writes both files, on a quiet machine
"""

import argparse
import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).parents[1]
TRANSCRIPT, PICTURE = Path(__file__).with_suffix(".txt"), ROOT / "docs/terminal.svg"
PROGRAM = ROOT / "examples/train_adam.py"
IDEAS = ("--in-place", "--prefetch")
COMMAND = (
    "speedproof prove 'python train_adam.py' 'python train_adam.py {idea}' \\\n    --epoch-s 'took (\\S+) s' --rounds {rounds}"
)
PROMPT, WIDTH = "$ ", 100
COLOURS = {"Faster": "bold green", "Slower": "bold red", "Equivalent": "bold", "Inconclusive": "bold"}
# Black, red, green … as a dark terminal has them, with a contrast of 7 and more: legible on a light page and on a dark one.
DARK = TerminalTheme((22, 27, 34), (230, 237, 243), [(22, 27, 34), (255, 152, 145), (86, 211, 100), *[(230, 237, 243)] * 5])
# A reader's own fonts: a picture in a README may ask no server for one.
SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<style>
text {{ font: {char_height}px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre }}
.{unique_id}-title {{ display: none }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{matrix}
</g>
</svg>
"""


def record_terminal(rounds: int, folder: Path, program: Path = PROGRAM) -> str:
    """Run the proofs in a folder, and return what was typed and what they printed, without progress."""
    shutil.copy(program, folder)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    shown = []
    for idea in IDEAS:
        typed = COMMAND.format(idea=idea, rounds=rounds)
        environment = os.environ | {"COLUMNS": str(WIDTH), "PATH": path}
        done = subprocess.run(["sh", "-c", typed], cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode not in (0, 1, 2):  # the outcomes
            raise SystemExit(done.stderr)
        shown.append(f"{PROMPT}{typed}\n{done.stdout}")
    return "\n".join(shown)


def draw_terminal(transcript: str) -> str:
    """Return a transcript as a picture, an SVG."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    is_typed = False
    for line in transcript.splitlines():
        is_typed = line.startswith(PROMPT) or (is_typed and line.startswith(" "))
        console.print(_style_line(line, is_typed), soft_wrap=True)
        is_typed = is_typed and line.endswith("\\")
    return console.export_svg(theme=DARK, code_format=SVG, unique_id="terminal")


def _style_line(line: str, is_typed: bool) -> Text:
    text = Text(line, style="bold" if is_typed else "")
    for outcome, colour in COLOURS.items():
        text.highlight_regex(rf"^{outcome}\b|\b{outcome.lower()}$", colour)
    return text


def main() -> None:
    """Print a recording, and write it with `--write`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        transcript = record_terminal(asked.rounds, Path(folder))
    print(transcript)
    if asked.write:  # whatever came out: to choose among recordings would be to choose the outcome
        TRANSCRIPT.write_text(transcript, encoding="utf-8")
        PICTURE.write_text(draw_terminal(transcript), encoding="utf-8")


if __name__ == "__main__":
    main()
