"""Why a program failed, by what real launchers and tools print."""

import pytest

from speedproof.run.failure_reason import find_failure

RULER = "=" * 60
TORCHRUN = f"""\
[rank0]: Traceback (most recent call last):
[rank0]:   File "/tmp/run/train.py", line 31, in <module>
[rank0]:     main()
[rank0]:   File "/usr/lib/python3.12/site-packages/torch/optim/sgd.py", line 34, in __init__
[rank0]:     raise ValueError("learning rate must be above 0")
[rank0]: ValueError: learning rate must be above 0
E1126 18:00:00.000000 7 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 7)
Traceback (most recent call last):
  File "/usr/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "/usr/lib/python3.12/site-packages/torch/distributed/launcher/api.py", line 264, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
{RULER}
train.py FAILED
{"-" * 60}
Root Cause (first observed failure):
[0]:
  exitcode  : 1 (pid: 7)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
{RULER}
"""
CHAINED = """\
Traceback (most recent call last):
  File "a.py", line 2, in <module>
    {}["x"]
KeyError: 'x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 4, in <module>
    raise RuntimeError("no x")
RuntimeError: no x
"""
CUDA = """\
Traceback (most recent call last):
  File "/tmp/run/src/train.py", line 9, in step
    loss.backward()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
If reserved but unallocated memory is large try setting max_split_size_mb.
wandb: synced 5 files
"""
NOTEBOOK = """\
nbclient.exceptions.CellExecutionError: An error occurred while executing the following cell:
------------------
model.fit()
------------------
NameError                                 Traceback (most recent call last)
Cell In[3], line 1
----> 1 model.fit()

NameError: name 'model' is not defined
"""


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        (TORCHRUN, "ValueError: learning rate must be above 0 (train.py, line 31)"),
        (
            f"ValueError: learning rate must be above 0\n{RULER}\ntrain.py FAILED\n{RULER}\n",
            "ValueError: learning rate must be above 0",
        ),
        (CHAINED, "RuntimeError: no x (a.py, line 4)"),
        (CUDA, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. (train.py, line 9)"),
        (NOTEBOOK, "NameError: name 'model' is not defined (In[3], line 1)"),
        ("\x1b[31mKeyError: 'lr'\x1b[0m\n", "KeyError: 'lr'"),
        ("usage: a.py\na.py: error: unrecognized arguments: -x\n", "a.py: error: unrecognized arguments: -x"),
        (
            "train.c:3:1: error: unknown type name\n1 error generated.\nmake: *** [all] Error 1\n",
            "train.c:3:1: error: unknown type name",
        ),
        ("ValueError: shown and survived\nepoch 1\nconfig.yaml: no such file\n", "config.yaml: no such file"),
        ("Error in solve(x) : singular\nCalls: fit\nExecution halted\n", "Error in solve(x) : singular"),
        (
            "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\nAborted\n",
            "what():  std::bad_alloc",
        ),
        ("make: *** [all] Error 1\n", "make: *** [all] Error 1"),
        (f"it broke\n{RULER}\n", "it broke"),
        ("-----\n", "-----"),
        (" \n", ""),
    ],
)
def test_the_reason_is_found_in_what_a_program_prints(printed, reason):
    assert find_failure(printed) == reason
