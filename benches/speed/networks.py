"""An epoch of private training of a small PyTorch network beside Opacus, with and without both loaders."""

import importlib.util
import time

import torch
from timing import ROOT, found

#: The network, the data and both tools are those of `make bench-torch`.
_at = importlib.util.spec_from_file_location("bench_torch", ROOT / "benches" / "torch" / "run.py")
bench = importlib.util.module_from_spec(_at)
_at.loader.exec_module(bench)

ROUNDS = 3


def epoch(model, optimizer, loader):
    """Seconds of one epoch: all of it, and without the loader."""
    loss, inside = torch.nn.CrossEntropyLoss(), 0.0
    begun = time.perf_counter()
    for x, y in loader:
        start = time.perf_counter()
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
        inside += time.perf_counter() - start
    return time.perf_counter() - begun, inside


def torch_group():
    torch.set_num_threads(1)
    data = (torch.randn(bench.RECORDS, bench.INPUTS), torch.randint(0, bench.CLASSES, (bench.RECORDS,)))
    ours = bench.ours(data, bench.BATCH, ROUNDS + 1, noise_multiplier=1.0)
    peer = bench.opacus(data, bench.BATCH, ROUNDS + 1, noise_multiplier=1.0)
    epoch(*ours), epoch(*peer)
    pairs = [(epoch(*ours), epoch(*peer)) for _ in range(ROUNDS)]
    for name, part in (("torch-epoch-over-opacus", 0), ("torch-epoch-over-opacus-loop", 1)):
        yield name, found([a[part] for a, _ in pairs], [b[part] for _, b in pairs])
