"""Trains with Lightning's Trainer, which averages logged floats and integers over the ranks.

lightning_trainer.py BACKEND
"""

import sys

import lightning
import torch
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy
from reporting import network, report, samples
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCH, EPOCHS = 16, 5


class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network, self.losses = network(), []

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], _: int) -> torch.Tensor:
        inputs, classes = batch
        loss = nn.functional.cross_entropy(self.network(inputs), classes)
        self.log("loss", loss, sync_dist=True)
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch: tuple[torch.Tensor, torch.Tensor], _: int) -> None:
        inputs, classes = batch
        output = self.network(inputs)
        self.log("validation_loss", nn.functional.cross_entropy(output, classes), sync_dist=True)
        right = output.argmax(1) == classes
        self.log("right", right.sum(), sync_dist=True, reduce_fx="sum")
        # Over any backend except gloo, the trainer lets the backend average integers.
        count = torch.tensor([3 + self.global_rank] * 3)
        mean = self.trainer.strategy.reduce(count, reduce_op="mean")
        assert mean.tolist() == [(5 + self.trainer.world_size) // 2] * 3, mean
        assert mean.dtype == torch.int64

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.01)


model = Classifier()
trainer = lightning.Trainer(
    accelerator="cpu",
    devices=1,
    num_nodes=4,
    strategy=DDPStrategy(process_group_backend=sys.argv[1]),
    max_epochs=EPOCHS,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(
    model,
    DataLoader(TensorDataset(*samples(40 * BATCH, 1)), batch_size=BATCH),
    DataLoader(TensorDataset(*samples(20 * BATCH, 2)), batch_size=BATCH),
)
logged = {name: value.item() for name, value in trainer.callback_metrics.items()}
report(model.losses, model.network.parameters(), logged=logged)
dist.destroy_process_group()
