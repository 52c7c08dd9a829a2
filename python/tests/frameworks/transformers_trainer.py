"""Trains a small BERT with the Trainer of Hugging Face's Transformers, in the group of the script.

transformers_trainer.py BACKEND
"""

import sys
import tempfile

import torch
import torch.distributed as dist
from reporting import report
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

WORDS, LENGTH, BATCH, STEPS = 64, 12, 8, 50


class Sentences(Dataset):
    """Sentences of random words. The label is 1 if the first word is in the upper half of all words."""

    def __init__(self, count: int) -> None:
        generator = torch.Generator().manual_seed(1)
        self.sentences = torch.randint(WORDS, (count, LENGTH), generator=generator)

    def __len__(self) -> int:
        return len(self.sentences)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        sentence = self.sentences[index]
        return {"input_ids": sentence, "labels": (sentence[0] >= WORDS // 2).long()}


dist.init_process_group(sys.argv[1])
set_seed(1)
model = BertForSequenceClassification(
    BertConfig(
        vocab_size=WORDS,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=LENGTH,
    )
)
with tempfile.TemporaryDirectory() as folder:
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=folder,
            use_cpu=True,
            per_device_train_batch_size=BATCH,
            learning_rate=0.002,
            max_steps=STEPS,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        ),
        train_dataset=Sentences(800),
        eval_dataset=Sentences(160),
    )
    assert trainer.args.world_size == dist.get_world_size()
    trainer.train()
    evaluated = trainer.evaluate()
losses = [float(entry["loss"]) for entry in trainer.state.log_history if "loss" in entry]
report(losses, model.parameters(), logged={"evaluation": evaluated["eval_loss"]})
dist.destroy_process_group()
