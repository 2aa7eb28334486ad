"""Tables of the documents that a benchmark writes, between two comments that name it."""

from pathlib import Path


def mark_table(name: str, script: str) -> tuple[str, str]:
    """Return the comments around what the benchmark `script` writes."""
    return f"<!-- {name}: written by `{script}` -->", f"<!-- end of {name} -->"


def read_table(page: Path, name: str, script: str) -> str:
    """Return what stands between the comments in a page."""
    begin, end = mark_table(name, script)
    _, found, rest = page.read_text(encoding="utf-8").partition(begin)
    if not found or end not in rest:
        raise SystemExit(f"{page}: {begin} … {end} is missing")
    return rest.partition(end)[0].strip()


def write_table(page: Path, name: str, script: str, table: str) -> None:
    """Replace what stands between the comments in a page."""
    read_table(page, name, script)
    begin, end = mark_table(name, script)
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    page.write_text(f"{before}{begin}\n\n{table.strip()}\n\n{end}{rest.partition(end)[2]}", encoding="utf-8")
