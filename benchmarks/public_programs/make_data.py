"""Made-up data for the programs of programs.yaml: random numbers and pictures, and English text from Python's help.

Each function writes below a folder. Seeds are fixed, so that each trial has the same data. `MAKERS` lists them by the kind
that programs.yaml names. Some need packages that the programs need too (packages.txt).
"""

import gzip
import os
import pickle
import re
import struct
from collections.abc import Callable
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
from numpy.typing import DTypeLike

CORA_CLASSES = [
    "Case_Based",
    "Genetic_Algorithms",
    "Neural_Networks",
    "Probabilistic_Methods",
    "Reinforcement_Learning",
    "Rule_Learning",
    "Theory",
]
CORA_WORDS, CORA_DENSITY = 1433, 0.0127
BREEDS = ["beagle", "pug", "bombay", "sphynx"]


def make_mnist(path: Path, train: int, test: int, zipped: bool = False) -> None:
    """Write a training and a test set in MNIST's format: ten noisy patterns."""
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 256, (10, 28, 28))
    path.mkdir(parents=True, exist_ok=True)
    for part, count in (("train", train), ("t10k", test)):
        labels = rng.integers(0, 10, count).astype(np.uint8)
        images = np.clip(patterns[labels] * 0.6 + rng.integers(0, 100, (count, 28, 28)), 0, 255).astype(np.uint8)
        files = {
            f"{part}-images-idx3-ubyte": struct.pack(">IIII", 2051, count, 28, 28) + images.tobytes(),
            f"{part}-labels-idx1-ubyte": struct.pack(">II", 2049, count) + labels.tobytes(),
        }
        for name, content in files.items():
            (path / f"{name}.gz").write_bytes(gzip.compress(content, mtime=0)) if zipped else (path / name).write_bytes(content)


def english_text(size: int) -> str:
    """Return that many characters of Python's help topics, repeated if need be."""
    text = "\n".join(topics[name] for name in sorted(topics)).encode("ascii", "ignore").decode()
    return (text * (size // len(text) + 1))[:size]


def make_text(path: Path, size: int) -> None:
    """Write a file of English text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(english_text(size))


def make_words(path: Path, size: int) -> None:
    """Write a file of lower-case words in one line, made from `size` characters of text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(re.sub("[^a-z]+", " ", english_text(size).lower()).strip())


def shorten_file(path: Path, size: int) -> None:
    """Keep the first bytes of a file of the repository."""
    path.write_bytes(path.read_bytes()[:size])


def make_characters(path: Path, size: int) -> None:
    """Write nanoGPT's three files of numbered characters, 90 % of them for training."""
    text = english_text(size)
    numbers = {character: number for number, character in enumerate(sorted(set(text)))}
    tokens = np.array([numbers[character] for character in text], np.uint16)
    (path / "input.txt").write_text(text)
    tokens[: int(size * 0.9)].tofile(path / "train.bin")
    tokens[int(size * 0.9) :].tofile(path / "val.bin")
    names = {number: character for character, number in numbers.items()}
    (path / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": len(numbers), "itos": names, "stoi": numbers}))


def make_cora_words(path: Path) -> None:
    """Write cora.content for the papers of cora.cites: random words, random classes."""
    rng = np.random.default_rng(0)
    papers = sorted(set((path / "cora.cites").read_text().split()), key=int)
    with (path / "cora.content").open("w") as file:
        for paper in papers:
            words = (rng.random(CORA_WORDS) < CORA_DENSITY).astype(int)
            file.write("\t".join([paper, *map(str, words), CORA_CLASSES[rng.integers(7)]]) + "\n")


def make_planetoid(path: Path) -> None:
    """Write the raw Planetoid files of Cora in its sizes: random words, classes and links."""
    import scipy.sparse

    rng = np.random.default_rng(0)
    nodes, trained, tested = 2708, 140, 1000

    def draw_words(count: int) -> object:
        return scipy.sparse.csr_matrix((rng.random((count, CORA_WORDS)) < CORA_DENSITY).astype(np.float32))

    def draw_classes(count: int) -> np.ndarray:
        return np.eye(7, dtype=np.int32)[rng.integers(0, 7, count)]

    words, classes = draw_words(nodes - tested), draw_classes(nodes - tested)
    graph: dict[int, list[int]] = {node: [] for node in range(nodes)}
    for one, other in rng.integers(0, nodes, (5429, 2)).tolist():
        graph[one].append(other)
        graph[other].append(one)
    parts = {"x": words[:trained], "y": classes[:trained], "allx": words, "ally": classes}
    parts |= {"tx": draw_words(tested), "ty": draw_classes(tested), "graph": graph}
    path.mkdir(parents=True, exist_ok=True)
    for name, part in parts.items():
        (path / f"ind.cora.{name}").write_bytes(pickle.dumps(part))
    order = rng.permutation(np.arange(nodes - tested, nodes))
    (path / "ind.cora.test.index").write_text("\n".join(map(str, order)) + "\n")


def make_points(path: Path, points: int, features: int) -> None:
    """Write random points of two overlapping classes in LIBSVM's format."""
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        for _ in range(points):
            label = rng.choice([-1, 1])
            values = enumerate(rng.normal(0.15 * label, 1, features), 1)
            file.write(f"{label:+d} " + " ".join(f"{number}:{value:.4f}" for number, value in values) + "\n")


def _weights(rng: np.random.Generator, sizes: list[int], ones: set[int]) -> bytes:
    parts = [np.ones(size) if i in ones else rng.normal(0, 0.02, size) for i, size in enumerate(sizes)]
    return b"".join(part.astype(np.float32).tobytes() for part in parts)


def _header(values: list[int], dtype: DTypeLike) -> bytes:
    header = np.zeros(256, dtype)
    header[: len(values)] = values
    return header.tobytes()


def make_gpt2(path: Path) -> None:
    """Write random weights of a small GPT-2, a tokenizer and tokens, in the formats that llm.c reads."""
    rng = np.random.default_rng(0)
    length, words, layers, heads, width = 64, 512, 2, 4, 64
    sizes = [words * width, length * width]
    sizes += [layers * width * n for n in (1, 1, 3 * width, 3, width, 1, 1, 1, 4 * width, 4, 4 * width, 1)]
    sizes += [width, width]
    header = _header([20240326, 3, length, words, layers, heads, width, words], np.int32)
    (path / "gpt2_124M.bin").write_bytes(header + _weights(rng, sizes, {2, 8, 14}))
    tokens = b"".join(bytes([len(word)]) + word for word in (f" w{i}".encode() for i in range(words)))
    (path / "gpt2_tokenizer.bin").write_bytes(_header([20240328, 2, words, words - 1], np.uint32) + tokens)
    data = path / "dev/data/tinyshakespeare"
    data.mkdir(parents=True, exist_ok=True)
    for part, count in (("train", 40000), ("val", 8000)):
        drawn = rng.integers(0, words, count).astype(np.uint16).tobytes()
        (data / f"tiny_shakespeare_{part}.bin").write_bytes(_header([20240520, 1, count], np.int32) + drawn)


def make_llama(path: Path) -> None:
    """Write random weights in the shape of llama2.c's stories15M.bin."""
    rng = np.random.default_rng(0)
    width, hidden, layers, heads, words, length = 288, 768, 6, 6, 32000, 256
    square, tall, positions = layers * width * width, layers * width * hidden, length * width // heads // 2
    sizes = [words * width, layers * width, *[square] * 4, layers * width, *[tall] * 3, width, positions, positions]
    header = np.array([width, hidden, layers, heads, heads, words, length], np.int32).tobytes()
    path.write_bytes(header + _weights(rng, sizes, {1, 6, 10}))


def make_masks(path: Path, count: int) -> None:
    """Write random images with masks of a bright disk, 192 × 128."""
    from PIL import Image

    rng = np.random.default_rng(0)
    y, x = np.mgrid[:128, :192]
    for i in range(count):
        mask = (x - rng.integers(40, 150)) ** 2 + (y - rng.integers(30, 98)) ** 2 < 900
        image = rng.integers(0, 120, (128, 192, 3)) + 100 * mask[..., None]
        for folder, pixels in (("imgs", image), ("masks", mask)):
            (path / folder).mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels.astype(np.uint8)).save(path / folder / f"{i:02d}.png")


def make_pictures(path: Path, train: int, validation: int) -> None:
    """Write that many random pictures for each of two classes, a folder for each part and class."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for part, count in (("train", train), ("validation", validation)):
        for label in "ab":
            (path / part / label).mkdir(parents=True, exist_ok=True)
            for i in range(count):
                Image.fromarray(rng.integers(0, 256, (72, 72, 3), np.uint8)).save(path / part / label / f"{i}.png")


def make_pets(path: Path, count: int) -> None:
    """Write random pictures named like the Oxford pets."""
    from PIL import Image

    rng = np.random.default_rng(0)
    path.mkdir(parents=True, exist_ok=True)
    for i in range(count):
        Image.fromarray(rng.integers(0, 256, (240, 240, 3), np.uint8)).save(path / f"{BREEDS[i % len(BREEDS)]}_{i}.jpg")


def make_timm_weights(path: Path, model: str, tag: str) -> None:
    """Write random weights of a timm model into a folder that serves as the Hugging Face cache."""
    import timm
    from safetensors.torch import save_file

    cache = path / f"hub/models--timm--{model}.{tag}"
    for folder in ("snapshots/0", "refs"):
        (cache / folder).mkdir(parents=True, exist_ok=True)
    (cache / "refs/main").write_text("0")
    save_file(timm.create_model(model).state_dict(), cache / "snapshots/0/model.safetensors")


def download_tokenizer(path: Path) -> None:
    """Let tiktoken download GPT-2's tokenizer into its cache at `path`; needs a network, once."""
    import tiktoken

    os.environ["TIKTOKEN_CACHE_DIR"] = str(path)
    try:
        tiktoken.get_encoding("gpt2")
    except OSError as error:
        raise SystemExit(
            f"{path}: the tokenizer of GPT-2 cannot be downloaded ({type(error).__name__}); connect to a network"
        ) from None


MAKERS: dict[str, Callable[..., None]] = {
    "mnist": make_mnist,
    "text": make_text,
    "words": make_words,
    "shorten": shorten_file,
    "characters": make_characters,
    "cora words": make_cora_words,
    "planetoid": make_planetoid,
    "points": make_points,
    "gpt2": make_gpt2,
    "llama": make_llama,
    "masks": make_masks,
    "pictures": make_pictures,
    "pets": make_pets,
    "timm weights": make_timm_weights,
    "tokenizer": download_tokenizer,
}
