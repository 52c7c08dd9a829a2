"""Trains with pytorch-ignite, in the group that the script has made.

ignite_engine.py BACKEND
"""

import sys

import ignite.distributed as idist
import torch
import torch.distributed as dist
from ignite.engine import Engine, Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import Accuracy, Loss
from reporting import network, report, samples
from torch import nn
from torch.utils.data import TensorDataset

BATCH, EPOCHS = 16, 5

dist.init_process_group(sys.argv[1])
assert idist.backend() == sys.argv[1]
assert (idist.get_world_size(), idist.get_rank()) == (dist.get_world_size(), dist.get_rank())
# `idist.auto_model` wraps a model like this only over backends that it knows, such as gloo.
model = nn.parallel.DistributedDataParallel(network())
optimizer = idist.auto_optim(torch.optim.Adam(model.parameters(), lr=0.01))
measure = nn.CrossEntropyLoss()
trainer = create_supervised_trainer(model, optimizer, measure)
evaluator = create_supervised_evaluator(model, {"accuracy": Accuracy(), "loss": Loss(measure)})
whole = BATCH * idist.get_world_size()
data = idist.auto_dataloader(TensorDataset(*samples(10 * whole, 1)), batch_size=whole, shuffle=False)
test_data = idist.auto_dataloader(TensorDataset(*samples(5 * whole, 2)), batch_size=whole, shuffle=False)
losses, evaluated = [], []


@trainer.on(Events.ITERATION_COMPLETED)
def keep(engine: Engine) -> None:
    losses.append(engine.state.output)


@trainer.on(Events.EPOCH_COMPLETED)
def evaluate() -> None:
    evaluated.append(evaluator.run(test_data).metrics)


trainer.run(data, max_epochs=EPOCHS)
assert idist.all_reduce(idist.get_rank() + 1) == sum(range(idist.get_world_size() + 1))
report(losses, model.parameters(), logged=evaluated[-1])
idist.finalize()
