"""Table I: the settings of training, and whether training works with each of them."""

from __future__ import annotations

from ..judging import every
from ..record import Record
from .scored import judge_rise, measure, rise
from .trained import DATASETS, SETTINGS, Machines, on_machines


@on_machines
def run(record: Record, trained: Machines) -> None:
    """A table of the published settings and of those of this scale, and every machine before and after training."""
    scales = dict.fromkeys(["full", trained.scale])
    record.table("table1", [_row(trained, scale, dataset) for scale in scales for dataset in DATASETS])
    record.table("trained", [row for dataset in DATASETS for row in _trained(record, trained, dataset)])


def _row(trained: Machines, scale: str, dataset: str) -> dict[str, object]:
    chosen, machine = SETTINGS[scale][dataset], trained.build(dataset, 1)
    first, last = chosen.rate
    return {
        "scale": scale,
        "dataset": dataset,
        "N_v": machine.visible.size,
        "N_h": " ".join(str(size) for size in chosen.sizes),
        "M": chosen.batch,
        "K": chosen.starts,
        "visible": machine.visible.name(),
        "hidden": machine.hidden.name(),
        "regularization": "l2",
        "gamma": f"{first:g}" if first == last else f"{first:g} to {last:g}",
        "epsilon": chosen.decay,
        "eta": chosen.momentum,
        "rows": chosen.rows or "all",
        "epochs": chosen.epochs,
        "iterations": chosen.iterations,
        "tolerance": "" if chosen.tolerance is None else chosen.tolerance,
        "centered": chosen.centered,
    }


def _trained(record: Record, trained: Machines, dataset: str) -> list[dict[str, object]]:
    probes = trained.rows(dataset)[trained.probes(dataset)]
    rows = []
    for size in trained.sizes(dataset):
        kept = trained.along(dataset, size)
        start, end = (measure(epoch, machine, probes, probes)[0] for epoch, machine in (kept[0], kept[-1]))
        finite = all(bool(p.isfinite().all()) for _, machine in kept for p in machine.parameters())
        record.claim(
            f"{dataset}, N_h = {size}: these settings raise the TAP log-likelihood and all stays finite",
            f"{start.value:.4f} to {end.value:.4f} nats per unit, a rise of {rise([start, end]):.4f}; "
            f"{end.converged:.0%} of the starts converge; "
            f"parameters {'finite' if finite else 'not finite'} at all {len(kept)} kept epochs",
            every([finite, judge_rise([start, end])]),
        )
        rows.append({
            "dataset": dataset,
            "hidden": size,
            "before": start.value,
            "after": end.value,
            "standard_error": end.error,
            "solutions": end.solutions,
            "converged": end.converged,
            "seconds": trained.history(dataset, size)[-1]["seconds"],
        })  # fmt: skip
    return rows
