"""Training that continues when ranks die, leave or join.

`Elastic(model, optimizer)` replaces the process group:

```python
training = Elastic(model, optimizer)
for epoch in training.epochs(10):
    for inputs, targets in training.loader(data, batch_size=128):
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
```
"""

from tributary.torch.elastic.plan import ElasticSampler, Plan
from tributary.torch.elastic.training import Elastic

__all__ = ["Elastic", "ElasticSampler", "Plan"]
