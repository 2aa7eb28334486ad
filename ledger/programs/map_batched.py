"""Tokenize reviews with Dataset.map: `python map_batched.py single` or `batched`."""

import random
import sys

import datasets
from timing import print_times
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import BertProcessing
from transformers import PreTrainedTokenizerFast

REVIEWS, WORDS = 4000, 85
letters = "abcdefghijklmnopqrstuvwxyz"
draw = random.Random(0)
pieces = ["".join(draw.choices(letters, k=draw.randint(2, 6))) for _ in range(20_000)]
special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *("##" + letter for letter in letters)]
vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys([*special, *pieces, *("##" + p for p in pieces[:8000])]))}
words = pieces[:10_000] + [draw.choice(pieces) + draw.choice(pieces) for _ in range(2000)]
reviews = [" ".join(draw.choices(words, k=draw.randint(2, 2 * WORDS))) + "." for _ in range(REVIEWS)]

model = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
model.normalizer = BertNormalizer(lowercase=False)
model.pre_tokenizer = BertPreTokenizer()
model.post_processor = BertProcessing(("[SEP]", vocabulary["[SEP]"]), ("[CLS]", vocabulary["[CLS]"]))
tokenizer = PreTrainedTokenizerFast(tokenizer_object=model, pad_token="[PAD]", unk_token="[UNK]", model_max_length=512)
datasets.disable_progress_bars()
datasets.disable_caching()
dataset = datasets.Dataset.from_dict({"review": reviews})


def tokenize(examples):
    return tokenizer(examples["review"], truncation=True)


def work():
    dataset.map(tokenize, batched=sys.argv[1] == "batched")


print_times(work)
