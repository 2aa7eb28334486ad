"""A verdict on a terminal: what was found first, in bold, and the path of its report last."""

from rich.console import Console
from rich.text import Text

from speedproof.report.terminal import make_console, print_listing
from speedproof.report.trace_listings import Listing
from speedproof.run.proof.variant_labels import split_words
from speedproof.run.proof.verdict import Verdict, tabulate
from speedproof.stats.proof_claim import Proof
from speedproof.util.text import find_width, fold, printable

_COLOURS: dict[Proof, str] = {
    "faster": "green",
    "claim holds": "green",
    "slower": "red",
    "claim fails": "red",
    "worse quality": "red",
    "inconclusive": "yellow",
    "quality not established": "yellow",
}


def print_verdict(verdict: Verdict, console: Console | None = None) -> None:
    """Print what was found, each command's numbers, what to do next, and where the report is."""
    console = console or make_console()
    for one in verdict.candidates:
        _print(console, one.sentence, one.headline, f"bold {_COLOURS.get(one.outcome, '')}".strip())
    for sentence in verdict.further_sentences:
        _print(console, sentence)
    if verdict.variants:  # an older version wrote none
        print_listing(console, Listing("", *tabulate(verdict), most=len(verdict.variants)))
        for own in verdict.variants:
            _print(console, f"{own.name}: {own.label}")
    if verdict.why:
        _print(console, f"Why: {verdict.why}")
    if verdict.next_command:
        _print_command(console, f"Next: {verdict.next_command}")
    _print(console, f"Report: {verdict.report}")


def _print(console: Console, text: str, headline: str = "", style: str = "") -> None:
    """Print a paragraph, folded on a terminal alone; what it begins with, its `headline`, in a style."""
    shown = Text(fold(printable(text), find_width(console.file)))
    shown.stylize(style, 0, len(printable(headline)))  # lines are folded at spaces, so no character moves
    console.print(shown, soft_wrap=True)


def _print_command(console: Console, text: str) -> None:
    """Print a line with a command so that it can be copied: on a terminal a shell's line ends with a backslash."""
    width = find_width(console.file)
    lines = [""]
    for word in split_words(printable(text)):
        if width is not None and len(lines[-1]) + len(word) > width - 3 and lines[-1]:
            lines.append("     ")
        lines[-1] += f" {word}" if lines[-1] else word
    console.print(Text(" \\\n".join(lines)), soft_wrap=True)
