"""Size of a page with a timeline, and how soon Chromium shows it.

`python -m benchmarks.timeline` makes the page of a pair of generated traces (see generated_export.py), as `speedproof trace
diff` does. It has 700,000 recorded events for each mix, plus idle gaps. A headless Chromium of 1440×900 pixels opens it several
times. Times count from the start of the navigation; the table shows the shortest and, in brackets, the median. A
redraw is the time from a zoom to the frame after it. The same events are written for Perfetto. It exits with 1 if a page is
larger, or its timeline later, than the limits below.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.generated_export import MIXES, write_export
from speedproof.profilers.convert import convert_input
from speedproof.report.document import Markup
from speedproof.report.html import render_html
from speedproof.report.timeline.collect import read_timeline
from speedproof.report.timeline.fragment import render_timelines
from speedproof.report.timeline.pftrace import write_perfetto
from speedproof.report.trace_page import Traced, compose_pair
from speedproof.trace.diff import compare_summaries
from speedproof.trace.summarize import analyze_trace
from tests.chromium import Chromium, find_chromium

EVENTS, OPENINGS, ZOOMS = 700_000, 5, 8
LARGEST_MB, LATEST_S = 8.0, 2.0
HEADER = [
    "mix",
    "events",
    "page",
    "bytes an event",
    "first paint",
    "timeline ready",
    "of it unpacking",
    "redraw",
    "trace.pftrace",
]
ZOOM = """new Promise((done) => {
  const began = performance.now();
  document.querySelector('.timeline-in').click();
  requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
})"""


def make_page(folder: Path, mix: str, events: int) -> tuple[Path, int, float, float]:
    """Write the page of a pair; return it, how many events it shows, and seconds and megabytes of the same for Perfetto."""
    traces = []
    for name in ("a", "b"):
        export = folder / f"{name}.sqlite"
        write_export(export, events // 2, MIXES[mix])
        convert_input(export, folder / name)
        traces.append(Traced(name, analyze_trace(folder / name)))
    timelines = [read_timeline(traced.title, folder / traced.title) for traced in traces]
    difference = compare_summaries(traces[0].summary, traces[1].summary, ("a", "b"))
    page, perfetto = folder / "report.html", folder / "trace.pftrace"
    render_html(compose_pair(traces[0], traces[1], difference, Markup(render_timelines(timelines), instead="")), page)
    start_s = time.monotonic()
    write_perfetto(timelines, perfetto)
    written_s = time.monotonic() - start_s
    return page, sum(timeline.events for timeline in timelines), written_s, perfetto.stat().st_size / 1e6


def measure_page(page: Path, profile: Path) -> tuple[list[float], list[float], list[float], list[float]]:
    """Open a page several times; return milliseconds until its first paint and its timeline, of unpacking, and of redraws."""
    painted, ready, unpacked, redrawn = [], [], [], []
    with Chromium(find_chromium(), profile) as browser:
        for _ in range(OPENINGS):
            browser.open(page)
            browser.wait("document.querySelector('.timeline').dataset.ready", 60)
            painted.append(browser.evaluate("performance.getEntriesByType('paint')[0].startTime"))
            ready.append(browser.evaluate("performance.getEntriesByName('timeline-ready')[0].startTime"))
            unpacked.append(browser.evaluate("Number(document.querySelector('.timeline').dataset.ready)"))
        redrawn = [browser.evaluate(ZOOM) for _ in range(ZOOMS)]
    return painted, ready, unpacked, redrawn


def say_times(times_ms: list[float]) -> str:
    """Return the least and the median."""
    return f"{min(times_ms):.0f} ms ({statistics.median(times_ms):.0f} ms)"


def main() -> None:
    """Print a row for each mix."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS)
    wanted = parser.parse_args()
    print(f"| {' | '.join(HEADER)} |\n{'|---' * len(HEADER)}|", flush=True)
    missed = False
    for mix in MIXES:
        with tempfile.TemporaryDirectory() as scratch:
            page, events, written_s, perfetto_mb = make_page(Path(scratch), mix, wanted.events)
            size = page.stat().st_size
            painted, ready, unpacked, redrawn = measure_page(page, Path(scratch, "profile"))
            row = [mix, f"{events:,}", f"{size / 1e6:.2f} MB", f"{size / events:.2f}"]
            row += map(say_times, (painted, ready, unpacked, redrawn))
            print(f"| {' | '.join(row)} | {perfetto_mb:.0f} MB in {written_s:.1f} s |", flush=True)
            missed = missed or size > LARGEST_MB * 1e6 or min(ready) > LATEST_S * 1e3
    sys.exit(missed)


if __name__ == "__main__":
    main()
