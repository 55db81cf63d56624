"""`federico export`."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from federico.cli.console import PLAIN, out, print_json
from federico.cli.options import Json, Quiet, Trust
from federico.cli.personal_model import (
    Client,
    Column,
    MethodName,
    Overwrite,
    Row,
    RunOrFolder,
    Seed,
    open_personal_model,
)
from federico.errors import ConfigError

if TYPE_CHECKING:
    from federico.data.dataset import Schema

MOST_LISTED = 20
"""Columns that are named."""


class FileKind(StrEnum):
    """What a personal model can be exported to."""

    ONNX = "onnx"
    SAFETENSORS = "safetensors"
    MODULE = "module"


def export(
    run: RunOrFolder,
    to: Annotated[
        FileKind,
        typer.Option(
            help="onnx: for onnxruntime and others; module: a program of torch.export; "
            "safetensors: the numbers alone, as in the state_dict of client.module()."
        ),
    ],
    client: Client = "",
    output: Annotated[
        Path | None,
        typer.Option(help="Output file (default: <client>.onnx, .pt2 or .safetensors)."),
    ] = None,
    overwrite: Overwrite = False,
    method: MethodName = "federico",
    seed: Seed = None,
    row: Row = "",
    column: Column = "",
    trust: Trust = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write one client's personal model to a file that other programs can use."""
    from federico.runs.atomic import refuse_existing
    from federico.runs.bundle import file_name
    from federico.runs.exporting import ONNX, PROGRAM, STATE, contents

    suffixes = {FileKind.ONNX: ONNX, FileKind.MODULE: PROGRAM, FileKind.SAFETENSORS: STATE}
    suffix = suffixes[to]
    if output is not None and output.suffix != suffix:
        raise ConfigError(f"--output {output}: must end in {suffix}, as --to says {to}")

    bundle = open_personal_model(run, client, method, seed, row, column, trust=trust)
    target = output or Path(file_name(bundle.header.client) + suffix)
    refuse_existing(target, overwrite)
    bundle.export(target, overwrite=overwrite)
    if json:
        print_json({"file": str(target), **contents(bundle.header)})
    elif not quiet:
        samples = _samples(bundle.header.schema)
        out.print(f"{target}: takes {samples}, any number at a time", **PLAIN)


def _samples(schema: "Schema") -> str:
    """What a sample is: the columns of a table in their order, or a shape."""
    if not schema.columns:
        return f"samples of shape {tuple(schema.sample_shape)}"
    names = [column.name for column in schema.columns]
    listed = ", ".join(names[:MOST_LISTED])
    if len(names) > MOST_LISTED:
        listed += f" and {len(names) - MOST_LISTED} more (--json lists all)"
    return f"samples of {len(names)} columns, in this order: {listed}"
