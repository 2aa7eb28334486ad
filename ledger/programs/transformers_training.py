"""Updates of a BERT-large by 4 sequences of 512 tokens each: `python transformers_training.py METHOD`.

METHOD: `plain`, `fp16`, `accumulation` (four steps of one sequence), or `checkpointing` (with accumulation).
"""

import sys

import torch
from timing import print_times
from transformers import BertConfig, BertForSequenceClassification

torch.manual_seed(0)
method = sys.argv[1]
config = BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
model = BertForSequenceClassification._from_config(config, attn_implementation="eager").cuda().train()
if method == "checkpointing":
    model.gradient_checkpointing_enable()
tokens, labels = torch.randint(100, 30000, (4, 512), device="cuda"), torch.zeros(4, dtype=torch.long, device="cuda")
parts = 4 if method in ("accumulation", "checkpointing") else 1
batches = list(zip(tokens.chunk(parts), labels.chunk(parts), strict=True))
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
half = method == "fp16"
scaler = torch.amp.GradScaler("cuda", enabled=half)


def work(updates=6):
    for _ in range(updates):
        for part, target in batches:
            with torch.autocast("cuda", dtype=torch.float16, enabled=half):
                loss = model(input_ids=part, labels=target).loss / parts
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    torch.cuda.synchronize()


work(updates=2)
print_times(work)
