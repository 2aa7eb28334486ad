"""Why a program failed, found in what it printed: its exception, not the frame that a launcher draws below it."""

import re

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_RANK = re.compile(r"^\s*(?:\[(?:rank)?\d+\]:\s?|\(\w+ pid=\d+\)\s?|\d+:\s)")  # torchrun's, Ray's, srun's
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)')
_CELL = re.compile(r"^\s*(?:Cell|Input) (?P<file>In ?\[\d+\]), line (?P<line>\d+)")
_EXCEPTION = re.compile(r"^(?:\w+\.)*(?P<name>\w*(?:Error|Exception|Interrupt|Failure|Iteration))(?::\s.*|:)?$")
# Another process failed, and printed why.
_WRAPPERS = ("ChildFailedError", "CalledProcessError", "ProcessRaisedException", "CellExecutionError", "KeyboardInterrupt")
_REPORTS = re.compile(r"\berror\s*:|\bError in\b|\bfatal\b|panicked at|\bwhat\(\):", re.IGNORECASE)
# Last lines that say no more than that something failed: make's, R's, Rust's, the C++ runtime's.
_EMPTY_ENDS = re.compile(r"g?make(?:\[\d+\])?: \*\*\*|Execution halted$|note: run with `RUST_BACKTRACE|Aborted\b")
_RULER = re.compile(r"\s*={10,}$")
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python", "<frozen", "<string>")
_LONGEST, _MOST_LINES, _NEAR = 300, 400, 12


def find_failure(printed: str) -> str:
    """Return in one line why a program failed, by the end of what it printed: nothing if it printed nothing.

    That is its last exception, with the line of its own code that raised it. Without one it is the last line with words; if
    that is make's or a runtime's, the last line before it that reports an error.
    """
    lines = [_RANK.sub("", _ESCAPES.sub("", line)).rstrip() for line in printed.splitlines()]
    lines = [line for line in lines if line.strip()][-_MOST_LINES:]
    spoken = [number for number, line in enumerate(lines) if re.search(r"[^\W_]", line)]
    if not spoken:
        return lines[-1].strip()[:_LONGEST] if lines else ""
    raised = [number for number, line in enumerate(lines) if _is_exception(line, lines, number)]
    own = [number for number in raised if _name_exception(lines[number]) not in _WRAPPERS] or raised
    if own:
        return f"{lines[own[-1]].strip()[:_LONGEST]}{_find_place(lines[: own[-1]])}"
    said = [number for number in spoken if not _EMPTY_ENDS.match(lines[number].strip())] or spoken
    if said[-1] != spoken[-1]:
        said = [number for number in said if _REPORTS.search(lines[number])] or said
    return lines[said[-1]].strip()[:_LONGEST]


def _name_exception(line: str) -> str:
    found = _EXCEPTION.match(line.strip())
    return found["name"] if found else ""


def _is_exception(line: str, lines: list[str], number: int) -> bool:
    """Return whether a line reports an exception that ended the program, and not one that it printed and survived.

    A traceback stands above it, or what follows is no more than a launcher says.
    """
    if not _name_exception(line):
        return False
    rest, above = lines[number + 1 :], lines[max(0, number - _NEAR) : number]
    is_last = not re.search(r"[^\W_]", "".join(rest))
    is_launched = any(_RULER.match(one) for one in rest)
    return is_last or is_launched or any(_FRAME.match(one) or _CELL.match(one) for one in above)


def _find_place(before: list[str]) -> str:
    """Return where an exception was raised: in the program's own code if a frame of the last traceback is there."""
    begins = max((number for number, line in enumerate(before) if line.lstrip().startswith("Traceback (")), default=0)
    frames = [found for line in before[begins:] if (found := _FRAME.match(line) or _CELL.match(line))]
    own = [one for one in frames if not any(part in one["file"] for part in _LIBRARIES)] or frames
    return f" ({own[-1]['file'].rsplit('/', 1)[-1]}, line {own[-1]['line']})" if own else ""
