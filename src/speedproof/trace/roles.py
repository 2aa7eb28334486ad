"""What a range is for, derived from its name: our loop's names, and those that frameworks and people give.

A name that matches no pattern is a phase like any other, but is explained in less detail.
"""

import re

EPOCH = "epoch"
DATA_PHASES = ("dataload", "validation dataload")
TRAINING_PHASES = ("dataload", "forward", "backward", "update")
VALIDATION_PHASES = ("validation dataload", "sliding window", "decollate batch", "compute metric")
PHASES = frozenset(TRAINING_PHASES + VALIDATION_PHASES)

# PyTorch (`enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__`), Lightning (`train_dataloader_next`), TensorFlow
# (`IteratorGetNext`, `Iterator::Prefetch`), and what people write: `data loading`, `Load Data`, `get_batch`, `data`, `load`.
_LOADS_DATA = re.compile(
    r"data[ _-]?(load|wait|fetch|iter|prep)"
    r"|(load|fetch|wait|(?<![a-z])(get|next|read)|(?-i:(?<=[a-z])(Get|Next|Read)))"  # starts a word, in camel case too
    r"\w*[ _-]?(for[ _-])?(the[ _-])?(data|batch|input|sample)"
    r"|(batch|input|sample)[ _-]?(load|fetch|prep|wait)|^(batch |train |training )?(data|input)$|^load(ing)?$"
    r"|__next__|iterator(::|getnext)"
    r"|input[ _-]?pipeline",
    re.IGNORECASE,
)
_HANDLES = re.compile(r"collate|(pre|post)[ _-]?process|transform|augment", re.IGNORECASE)
_VALIDATES = re.compile(r"(?<![a-z])(valid(at(e|ion|ing))?|val|eval(uat(e|ion|ing))?|test(ing)?)(?![a-z])", re.IGNORECASE)
_UPDATES = re.compile(r"^update$|optimi[sz]er[ ._]?step|^optim(i[sz]er|i[sz]e)?$|^weight[ _]update$", re.IGNORECASE)
_WRITES = re.compile(
    r"(?<![a-z])(print|log(?!it|ic|_?softmax|sumexp|in\b)\w*|tensorboard|wandb|mlflow|summary_?writer|progress)", re.IGNORECASE
)


# A call of TensorRT, which marks each layer in it.
_ENGINE = re.compile(r"ExecutionContext::\w+")
# What torch.profiler marks of each optimizer, and of its steps before the optimizer's class.
OPTIMIZER = "Optimizer."
_STEP_OF_OPTIMIZER = f"{OPTIMIZER}step#"
# What C++ libraries name by themselves.
_LIBRARY = re.compile(r"(cub|thrust|raft|rmm|cudf)::|nccl[A-Z]")


def loads_data(name: str) -> bool:
    return name in DATA_PHASES or (name not in PHASES and _LOADS_DATA.search(name) is not None)


def waits_for_loader(name: str) -> bool:
    """Return whether a range waits for the worker processes of PyTorch's loader."""
    return "_MultiProcessingDataLoaderIter" in name


def makes_batches(name: str) -> bool:
    """Return whether a range is PyTorch's loader without workers, which makes each batch on the thread that asks for it."""
    return "_SingleProcessDataLoaderIter" in name


def handles_samples(name: str) -> bool:
    """Return whether what a range holds are steps on the way from a file to a batch, or back."""
    return loads_data(name) or _HANDLES.search(name) is not None


def validates(name: str) -> bool:
    if name in PHASES:
        return name in VALIDATION_PHASES
    return _VALIDATES.search(name) is not None and not goes_backward(name)


def goes_backward(name: str) -> bool:
    """Return whether an operator is a step of PyTorch's backward pass."""
    return name.startswith(("autograd::engine::evaluate_function", "torch::autograd::AccumulateGrad"))


def updates(name: str) -> bool:
    """Return whether a range changes the weights: training's last phase."""
    return _UPDATES.search(name) is not None


def is_optimizer_step(name: str) -> bool:
    """Return whether torch.profiler marked a step of an optimizer."""
    return name.startswith(_STEP_OF_OPTIMIZER)


def writes(name: str) -> bool:
    """Return whether a range prints or logs."""
    return name not in PHASES and _WRITES.search(name) is not None


def is_library(name: str) -> bool:
    """Return whether a library named the range by itself, so that it is detail and no phase."""
    return _LIBRARY.match(name) is not None


def runs_engine(name: str) -> bool:
    """Return whether a range is a call of an inference engine, which names what is inside of it by itself."""
    return _ENGINE.fullmatch(name) is not None
