"""The registry of datasets: what is read is what stands there, and nothing else is fetched."""

from pathlib import Path
from random import Random
from urllib.parse import urlsplit

from speedproof.results.registry import read_registry
from speedproof_spleen.data import REGISTRY
from tests.fuzz.calling import Outcome, attempt
from tests.fuzz.driver import write_files
from tests.fuzz.mutation import Files, mutate_bytes, mutate_tree, read_tree, write_tree

NAME = "registry.yaml"


def seeds() -> list[Files]:
    whole = read_tree(REGISTRY.read_bytes())
    return [{NAME: REGISTRY.read_bytes()}, *({NAME: write_tree(whole)} for _ in range(3))]


def mutate(random: Random, files: Files) -> Files:
    if random.random() < 0.4:
        return {NAME: mutate_bytes(random, files[NAME], random.choice([1, 1, 3]))}
    return {NAME: write_tree(mutate_tree(random, read_tree(files[NAME]), random.choice([1, 1, 2, 4])))}


def run(files: Files, folder: Path, sound: Files) -> Outcome:
    write_files(folder, files)
    entries = attempt(lambda: read_registry(folder / NAME), NAME)
    if isinstance(entries, Outcome):
        return entries
    stated = read_tree(files[NAME])
    for name, entry in entries.items():
        read = entry.model_dump()
        if other := [key for key, value in stated[name].items() if key not in read or repr(read[key]) != repr(value)]:
            return Outcome("silent", f"{name}: {', '.join(other)} read as {entry}")
        address = urlsplit(entry.url)
        if address.scheme not in ("http", "https") or not address.hostname or Path(entry.archive).name != entry.archive:
            return Outcome("silent", f"{name}: would fetch {entry.url!r} to {entry.archive!r}")
        if not all(str(value).isprintable() for value in entry.model_dump().values()) or not str(name).isprintable():
            return Outcome("silent", f"{name!r}: cannot be printed")
    return Outcome("same" if stated == read_tree(sound[NAME]) else "right")
