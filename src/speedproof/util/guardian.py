"""Ends a program and its descendants when it, or the experiment that started it, ends: `guardian.py FD NAME PIPE PROGRAM…`.

It is started by its path, as a process of its own, and knows the standard library only. Descendants of the program become its
own when their parents die, whatever process group or session they made for themselves, so it finds and ends them all: when
the program ends, and when the other end of the socket FD closes, as it does in whatever way the experiment ends. Until then it
sleeps. NAME, if not empty, is the variable that tells the program when it was launched; PIPE, if not empty, a named pipe that
is removed if the experiment ends first, since nobody else would.

When the program has ended, this writes a line into the socket: when the program began and ended, how many processes it left
running and what CPU time these had used, when the last one was gone, and what they used (:func:`add_usage`). Then it ends as
the program did, by the same signal if by one.

Each run waits for its start: what is imported is little, and `pathlib`, a third of it, is not.
"""

import ctypes
import os
import resource
import select
import signal
import stat
import sys
import time

PR_SET_PDEATHSIG, PR_SET_TIMERSLACK, PR_SET_CHILD_SUBREAPER = 1, 29, 36
TIMER_SLACK_NS = 50_000  # Linux' own; an earlier program may have changed that of the processes above, which is inherited
# Linux' own: elsewhere what leaves the program's tree before it ends cannot be found.
PRCTL = getattr(ctypes.CDLL(None), "prctl", None)
# What is still there so long after it was killed waits for a disk or a driver, and cannot be ended by anybody.
PATIENCE_S = 30
# What a program's end ends by itself is gone so soon after, such as a tracker that waits for a pipe to close.
GRACE_S = 0.1


def main(control: int, launched: str, pipe: str, command: list[str]) -> None:
    """Run a command and end as it does; where the pipe closes before, end it."""
    if PRCTL:
        PRCTL(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # Stop signals to the group are the program's affair; a handler, since programs would inherit that they are ignored.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as SIGHUP is under nohup
            signal.signal(number, lambda *_: None)
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    if launched:
        os.environ[launched] = repr(time.monotonic())  # the same for all processes of a machine
    read_before = count_read()
    began_s = time.monotonic()
    program = start(command, control)
    status = None
    sleeping = select.poll()
    for watched in (control, woken):
        sleeping.register(watched, select.POLLIN)
    while status is None:
        events = dict(sleeping.poll())
        if control in events:
            os.kill(program, signal.SIGKILL)
            status = os.waitpid(program, 0)[1]
            remove_pipe(pipe)
        else:
            os.read(woken, 4096)
            status = reap(program)
            ended_s = time.monotonic()
            if status is not None:
                left, gone_s = await_descendants(ended_s)
                left_s = sum(map(count_cpu, left))
                tell(control, f"{began_s!r} {ended_s!r} {len(left)} {left_s!r} {gone_s!r} {add_usage(read_before)}")
    end_descendants()
    end_as(status)


def add_usage(read_before: list[int]) -> str:
    """Return CPU seconds of all processes that ended, and bytes that they read in all and from storage; nothing if not known.

    Linux adds what a process used to the one that waits for it: here all of the program's tree, but for children whose parent
    ignores their end.
    """
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    read = [now - before for now, before in zip(count_read(), read_before, strict=False)]
    return " ".join(map(str, [used.ru_utime + used.ru_stime, *read]))


def count_read() -> list[int]:
    """Return how many bytes this process and all that it waited for read, in all and from storage; nothing if not known."""
    try:
        with open("/proc/self/io", "rb") as file:  # noqa: PTH123
            counts = dict(line.split(b": ") for line in file.read().splitlines())
        return [int(counts[b"rchar"]), int(counts[b"read_bytes"])]
    except (OSError, KeyError, ValueError):
        return []


def tell(control: int, text: str) -> None:
    """Say something to who started this process, which may be gone."""
    try:
        os.write(control, text.encode())
    except OSError:
        return


def remove_pipe(path: str) -> None:
    """Remove a named pipe, unless something else lies there."""
    try:
        if stat.S_ISFIFO(os.lstat(path).st_mode):
            os.unlink(path)  # noqa: PTH108
    except OSError:
        return


def start(command: list[str], control: int) -> int:
    """Start the program, which is killed if this process is, and return its process id."""
    own = os.getpid()
    program = os.fork()
    if program:
        return program
    if PRCTL:
        PRCTL(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        PRCTL(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0)
    if os.getppid() != own:
        os._exit(1)
    os.close(control)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr, flush=True)
    os._exit(127)


def reap(program: int) -> int | None:
    """Take note of all children that ended, and return the program's status; None where it still runs."""
    status = None
    while True:
        try:
            number, ended = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if number == 0:
            return status
        if number == program:
            status = ended


def await_descendants(ended_s: float) -> tuple[list[int], float]:
    """Return which descendants outlive a program by more than the grace, and when the last of the others was gone."""
    gone_s, found = ended_s, find_own()
    while found and time.monotonic() < ended_s + GRACE_S:
        time.sleep(0.005)
        reap(0)
        before, found = found, find_own()
        if not set(before) <= set(found):
            gone_s = time.monotonic()
    return found, gone_s


def count_cpu(number: int) -> float:
    """Return the CPU seconds of a process and of those that it waited for; 0 if the system does not tell."""
    try:
        with open(f"/proc/{number}/stat", "rb") as file:  # noqa: PTH123
            ticks = file.read().rpartition(b")")[2].split()[11:15]
    except OSError:
        return 0.0
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def end_descendants() -> None:
    """Kill whatever is left of the program."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := find_own()) and time.monotonic() < deadline:
        for number in found:
            try:
                os.kill(number, signal.SIGKILL)
            except ProcessLookupError:
                continue
        reap(0)
        time.sleep(0.005)


def find_own() -> list[int]:
    """Return the numbers of all processes below this one. Without a child there are none, and no need to look at all others."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return []
    return find_descendants(os.getpid())


def find_descendants(ancestor: int) -> list[int]:
    """Return the numbers of all processes below one."""
    children: dict[int, list[int]] = {}
    for number, parent in list_processes().items():
        children.setdefault(parent, []).append(number)
    found, unasked = [], [ancestor]
    while unasked:
        own = children.get(unasked.pop(), [])
        found += own
        unasked += own
    return found


def list_processes(system: str | os.PathLike[str] = "/proc") -> dict[int, int]:
    """Return the parent's number of each process of this machine, by its own; `ps` tells where `/proc` does not."""
    if not os.path.exists(os.path.join(system, "self")):  # noqa: PTH110, PTH118
        import subprocess

        words = subprocess.run(["ps", "-axo", "pid=,ppid="], capture_output=True, check=True).stdout.split()
        return dict(zip(map(int, words[::2]), map(int, words[1::2]), strict=True))
    parents = {}
    for name in os.listdir(system):  # noqa: PTH208
        if name.isdigit():
            try:
                with open(os.path.join(system, name, "stat"), "rb") as file:  # noqa: PTH118, PTH123
                    # After the name, which stands in brackets and may hold any: the state, and the parent.
                    parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError):
                continue
    return parents


def end_as(status: int) -> None:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:])
