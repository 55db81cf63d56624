"""A personal model in files that other programs read: ONNX, a torch program, safetensors.

Every file carries a description of what goes in and what comes out, so that whoever uses it needs
neither federico nor the training data.
"""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from federico.compat import without_exporter_noise
from federico.data.dataset import Schema
from federico.errors import ConfigError, MissingDependencyError
from federico.runs.atomic import publish
from federico.runs.bundle import Bundle
from federico.runs.tensor_file import save_tensors

INPUT = "x"
"""What the only input of a program is called."""
ONNX = ".onnx"
PROGRAM = ".pt2"
STATE = ".safetensors"
EXAMPLE_ROWS = 3
"""Any number but 0 and 1, which tracing would take for constants."""


def export(bundle: Bundle, target: Path) -> None:
    """Write the personal model to a file, of the kind its name says; it appears all at once.

    Programs take any number of samples at a time.
    """
    writers = {ONNX: _write_onnx, PROGRAM: _write_program, STATE: _write_state}
    if target.suffix not in writers:
        raise ConfigError(f"{target}: must end in {', '.join(writers)}")
    write = writers[target.suffix]
    publish(target, lambda partial: write(bundle, partial))


def description(bundle: Bundle) -> dict[str, str]:
    """What goes in and what comes out, as texts; lists are JSON."""
    header = bundle.header
    schema = header.schema
    columns = []
    for column in schema.columns:
        columns.append({"name": column.name, "categories": column.categories})
    target = "" if header.table is None else header.table.target
    return {
        "client": header.client,
        "method": header.method,
        "task": schema.task,
        "input_shape": json.dumps(list(schema.sample_shape)),
        "input_dtype": str(_input_dtype(bundle)).removeprefix("torch."),
        "columns": json.dumps(columns),
        "labels": json.dumps(list(schema.label_names)),
        "target": target,
    }


def output_name(schema: Schema) -> str:
    """What the only output of a program is called."""
    return "values" if schema.task == "regression" else "probabilities"


def _input_dtype(bundle: Bundle) -> torch.dtype:
    """Bytes for images that were trained on as bytes, doubles for tables, else as the models."""
    if bundle.header.schema.columns:
        return torch.float64
    if bundle.header.input_dtype == "uint8":
        return torch.uint8
    dtype: torch.dtype = getattr(torch, bundle.header.dtype)
    return dtype


def _example(bundle: Bundle) -> Tensor:
    shape = (EXAMPLE_ROWS, *bundle.header.schema.sample_shape)
    return torch.zeros(shape, dtype=_input_dtype(bundle))


def _dynamic_shapes() -> dict[str, Any]:
    return {INPUT: {0: torch.export.Dim("samples")}}


def _write_program(bundle: Bundle, path: Path) -> None:
    module = bundle.module()
    example = (_example(bundle),)
    with without_exporter_noise():
        program = torch.export.export(module, example, dynamic_shapes=_dynamic_shapes())
    about = {"federico.json": json.dumps(description(bundle))}
    with path.open("wb") as file:
        torch.export.save(program, file, extra_files=about)


def _write_state(bundle: Bundle, path: Path) -> None:
    tensors: dict[str, Tensor] = {}
    for name, tensor in bundle.module().state_dict().items():
        # A copy: models may share what is frozen, and the format takes no shared memory.
        tensors[name] = tensor.clone(memory_format=torch.contiguous_format)
    save_tensors(path, tensors, description(bundle))


def _write_onnx(bundle: Bundle, path: Path) -> None:
    try:
        import onnx
        import onnxscript  # noqa: F401 (torch needs it)
    except ImportError as error:
        raise MissingDependencyError(
            "export to ONNX needs more packages: pip install 'federico[onnx]'"
        ) from error

    with without_exporter_noise():
        program = torch.onnx.export(
            bundle.module(),
            (_example(bundle),),
            dynamo=True,
            input_names=[INPUT],
            output_names=[output_name(bundle.header.schema)],
            dynamic_shapes=_dynamic_shapes(),
            verbose=False,
        )
    if program is None:
        raise ConfigError("model: torch could not turn it into an ONNX program")
    model = program.model_proto
    onnx.helper.set_model_props(model, description(bundle))
    onnx.save(model, str(path))
