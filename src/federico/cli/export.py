"""`federico export`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

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
    from federico.runs.bundle import folder_name
    from federico.runs.exporting import ONNX, PROGRAM, STATE, description

    suffixes = {FileKind.ONNX: ONNX, FileKind.MODULE: PROGRAM, FileKind.SAFETENSORS: STATE}
    suffix = suffixes[to]
    if output is not None and output.suffix != suffix:
        raise ConfigError(f"--output {output}: must end in {suffix}, as --to says {to}")

    bundle = open_personal_model(run, client, method, seed, row, column, trust=trust)
    target = output or Path(folder_name(bundle.header.client) + suffix)
    refuse_existing(target, overwrite)
    bundle.export(target, overwrite=overwrite)
    if json:
        print_json({"file": str(target), **description(bundle.header)})
    elif not quiet:
        shape = tuple(bundle.header.schema.sample_shape)
        out.print(f"{target}: takes samples of shape {shape}, any number at a time", **PLAIN)
