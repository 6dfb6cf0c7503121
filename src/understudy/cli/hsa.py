"""`understudy hsa`: the agents that can be had."""

from __future__ import annotations

import typer

app = typer.Typer(help="AMD HSA agents.", no_args_is_help=True)


@app.callback()
def _hsa() -> None:
    """AMD HSA agents."""


@app.command()
def agents() -> None:
    """List the agents that can be had."""
    from understudy.device.hsa.agents import AGENTS

    for each in AGENTS.values():
        units = f"{each.compute_units} CUs, {each.waves_per_cu} waves each, {each.double_rate} double rate"
        print(f"{each.name}  {units:<48}{'; '.join(part for part in (each.note, each.products) if part)}")
