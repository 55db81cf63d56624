"""A personal model in files that other programs read: ONNX, a torch program, safetensors.

Every file carries a description of what goes in and what comes out, so that whoever uses it needs
neither federico nor the training data.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from federico.compat import without_exporter_noise
from federico.data.dataset import Schema
from federico.data.files import first_line
from federico.errors import ConfigError, MissingDependencyError
from federico.runs.atomic import publish
from federico.runs.bundle_header import Header
from federico.runs.personal_module import PersonalModel
from federico.runs.tensor_file import save_tensors

INPUT = "x"
"""What the only input of a program is called."""
ONNX = ".onnx"
PROGRAM = ".pt2"
STATE = ".safetensors"
EXAMPLE_ROWS = 3
"""Any number but 0 and 1, which tracing would take for constants."""


def export(header: Header, module: PersonalModel, target: Path) -> None:
    """Write the personal model to a file, of the kind its name says; it appears all at once.

    Programs take any number of samples at a time.
    """
    writers = {ONNX: _write_onnx, PROGRAM: _write_program, STATE: _write_state}
    if target.suffix not in writers:
        raise ConfigError(f"{target}: must end in {', '.join(writers)}")
    write = writers[target.suffix]
    publish(target, lambda partial: write(header, module, partial))


def contents(header: Header) -> dict[str, Any]:
    """What goes in and what comes out."""
    schema = header.schema
    columns = []
    for column in schema.columns:
        columns.append({"name": column.name, "categories": column.categories})
    target = "" if header.table is None else header.table.target
    return {
        "client": header.client,
        "method": header.method,
        "task": schema.task,
        "input_shape": list(schema.sample_shape),
        "input_dtype": str(_input_dtype(header)).removeprefix("torch."),
        "columns": columns,
        "labels": list(schema.label_names),
        "target": target,
    }


def description(header: Header) -> dict[str, str]:
    """The same for a file that holds texts only: lists are JSON."""
    texts = {}
    for name, value in contents(header).items():
        texts[name] = value if isinstance(value, str) else json.dumps(value)
    return texts


def output_name(schema: Schema) -> str:
    """What the only output of a program is called."""
    return "values" if schema.task == "regression" else "probabilities"


def _input_dtype(header: Header) -> torch.dtype:
    """Bytes for images that were trained on as bytes, doubles for tables, else as the models."""
    if header.schema.columns:
        return torch.float64
    if header.input_dtype == "uint8":
        return torch.uint8
    dtype: torch.dtype = getattr(torch, header.dtype)
    return dtype


def _example(header: Header) -> Tensor:
    shape = (EXAMPLE_ROWS, *header.schema.sample_shape)
    return torch.zeros(shape, dtype=_input_dtype(header))


def _dynamic_shapes() -> dict[str, Any]:
    return {INPUT: {0: torch.export.Dim("samples")}}


@contextmanager
def _faults_of_the_model() -> Iterator[None]:
    """Say in one line that a model's code is not one that can be traced.

    torch raises errors of many kinds for that, with pages of its own code.
    """
    try:
        yield
    except Exception as error:
        raise ConfigError(
            f"model: torch cannot turn its code into a program ({first_line(error)}); "
            "export its numbers instead, to safetensors"
        ) from error


def _write_program(header: Header, module: PersonalModel, path: Path) -> None:
    example = (_example(header),)
    with without_exporter_noise(), _faults_of_the_model():
        program = torch.export.export(module, example, dynamic_shapes=_dynamic_shapes())
    about = {"federico.json": json.dumps(description(header))}
    with path.open("wb") as file:
        torch.export.save(program, file, extra_files=about)


def _write_state(header: Header, module: PersonalModel, path: Path) -> None:
    tensors: dict[str, Tensor] = {}
    for name, tensor in module.state_dict().items():
        # A copy: models may share what is frozen, and the format takes no shared memory.
        tensors[name] = tensor.clone(memory_format=torch.contiguous_format)
    save_tensors(path, tensors, description(header))


def _write_onnx(header: Header, module: PersonalModel, path: Path) -> None:
    try:
        import onnx
        import onnxscript  # noqa: F401 (torch needs it)
    except ImportError as error:
        raise MissingDependencyError(
            "export to ONNX needs more packages: pip install 'federico[onnx]'"
        ) from error

    with without_exporter_noise(), _faults_of_the_model():
        program = torch.onnx.export(
            module,
            (_example(header),),
            dynamo=True,
            input_names=[INPUT],
            output_names=[output_name(header.schema)],
            dynamic_shapes=_dynamic_shapes(),
            verbose=False,
        )
    assert program is not None, "torch returns the program if dynamo is true"
    model = program.model_proto
    onnx.helper.set_model_props(model, description(header))
    onnx.save(model, str(path))
