"""PyTorch over the fabric: `torch.distributed.init_process_group("tributary")` is all that a script needs.

PyTorch finds the backend by this package's entry point; nothing has to be imported.
"""
