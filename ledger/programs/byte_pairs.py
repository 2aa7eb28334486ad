"""Encode the standard library's sources by byte pairs, as GPT-2 does: `python byte_pairs.py tokenizers` or `tiktoken`."""

import os
import sys
from pathlib import Path

import tiktoken
from tiktoken_ext.openai_public import r50k_pat_str
from timing import print_times
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

VOCABULARY = 20_000
texts = [path.read_text(errors="ignore") for path in sorted(Path(os.__file__).parent.glob("*.py"))]

model = Tokenizer(models.BPE())
model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
alphabet = pre_tokenizers.ByteLevel.alphabet()
model.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=VOCABULARY, initial_alphabet=alphabet, show_progress=False))

# GPT-2 writes a byte as its character if that is printable, else as one of the characters from 256 on.
plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
byte_of = {chr(byte): byte for byte in plain}
byte_of |= {chr(256 + i): byte for i, byte in enumerate(sorted(set(range(256)) - set(plain)))}
ranks = {bytes(byte_of[char] for char in piece): i for piece, i in model.get_vocab().items()}

hugging_face = PreTrainedTokenizerFast(tokenizer_object=model)
openai = tiktoken.Encoding("trained", pat_str=r50k_pat_str, mergeable_ranks=ranks, special_tokens={})


def work():
    if sys.argv[1] == "tokenizers":
        return hugging_face(texts)["input_ids"]
    return openai.encode_ordinary_batch(texts, num_threads=os.cpu_count())


work()  # warms up
print_times(work, repetitions=3)
