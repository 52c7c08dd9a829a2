"""PyTorch over the fabric: a script only calls `torch.distributed.init_process_group("tributary")`.

PyTorch finds the backend by this package's entry point, so the script need not import anything.
"""
