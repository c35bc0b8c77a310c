"""Files that are no model, and external data that is not where it should be."""

from __future__ import annotations

import gc
import os
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from support.frontend.case import linear, model
from support.hostile.case import limits
from tvm_stitch.cli import main
from tvm_stitch.errors import StitchError
from tvm_stitch.frontend import import_model

DATA = "w.bin"


@pytest.fixture
def path(tmp_path):
    """Return a model in a folder of its own, whose weights lie in `DATA` beside it."""
    folder = tmp_path / "model"
    folder.mkdir()
    onnx.save(
        linear(3), folder / "m.onnx", save_as_external_data=True, location=DATA, size_threshold=0
    )
    return folder / "m.onnx"


def refusal(path) -> str:
    with limits(), pytest.raises(StitchError) as caught:
        import_model(path)
    assert str(caught.value).isprintable()
    return str(caught.value)


def set_entry(path, key: str, value: str) -> None:
    proto = onnx.load(path, load_external_data=False)
    for tensor in proto.graph.initializer:
        kept = [(entry.key, entry.value) for entry in tensor.external_data if entry.key != key]
        del tensor.external_data[:]
        for each in (*kept, (key, value)):
            tensor.external_data.add(key=each[0], value=each[1])
    path.write_bytes(proto.SerializeToString())


@pytest.mark.parametrize("key", ["offset", "length"])
@pytest.mark.parametrize("value", ["", "-1", "four", "1e3", "0x10", "٣", "9" * 5000, "1_0", "\n"])
def test_an_offset_or_length_that_is_no_count_is_refused(path, key, value):
    set_entry(path, key, value)
    assert f"external {key}" in refusal(path)


@pytest.mark.parametrize("key", ["offset", "length"])
def test_data_beyond_the_file_is_refused(path, key):
    set_entry(path, key, str(1 << 62))
    assert "lies at bytes" in refusal(path)


@pytest.mark.parametrize(
    "location", ["", "..", "../w.bin", "a/../../w.bin", "/etc/hostname", "\0" * 9]
)
def test_a_location_outside_the_models_folder_is_refused(path, location):
    set_entry(path, "location", location)
    assert "outside the model's folder" in refusal(path)


@pytest.mark.parametrize("location", [".", "./", "folder"])
def test_a_location_that_is_a_folder_is_refused(path, location):
    (path.parent / "folder").mkdir()
    set_entry(path, "location", location)
    assert "no regular file" in refusal(path)


@pytest.mark.parametrize("location", ["none.bin", "m.onnx/w.bin", "a" * 5000, "w.bin\0"])
def test_a_location_where_nothing_is_is_refused(path, location):
    set_entry(path, "location", location)
    assert "cannot be read" in refusal(path)


def test_data_that_is_a_pipe_is_not_waited_for(path):
    (path.parent / DATA).unlink()
    os.mkfifo(path.parent / DATA)
    assert "no regular file" in refusal(path)


@pytest.mark.parametrize("link", ["file", "folder"])
def test_a_link_that_leads_outside_is_refused(path, tmp_path, link):
    outside = tmp_path / "outside"
    outside.mkdir()
    (path.parent / DATA).rename(outside / DATA)
    if link == "file":
        (path.parent / DATA).symlink_to(outside / DATA)
    else:
        (path.parent / "in").symlink_to(outside)
        set_entry(path, "location", f"in/{DATA}")
    assert "outside the model's folder" in refusal(path)


def test_a_link_to_itself_is_refused(path):
    (path.parent / DATA).unlink()
    (path.parent / DATA).symlink_to(DATA)
    assert DATA in refusal(path)


def test_links_within_the_folder_and_to_where_the_model_is_are_followed(path, tmp_path):
    (path.parent / DATA).rename(path.parent / "other")
    (path.parent / DATA).symlink_to("other")
    assert import_model(path).weights
    shown = tmp_path / "shown"  # as a cache of models does: links into one folder of files
    shown.mkdir()
    for name in ("m.onnx", DATA):
        (shown / name).symlink_to(path.parent / name)
    assert import_model(shown / "m.onnx").weights


def library(path) -> None:
    path.with_suffix(".c").write_text("int f(void) { return 1; }")
    subprocess.run(["gcc", "-shared", "-o", path, path.with_suffix(".c")], check=True)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        pytest.param(lambda path: path.mkdir(), "Is a directory", id="folder"),
        pytest.param(os.mkfifo, "no regular file", id="pipe"),
        pytest.param(lambda path: path.symlink_to("/dev/zero"), "no regular file", id="device"),
        pytest.param(lambda path: path.symlink_to(path.name), "cannot be read", id="loop"),
        pytest.param(lambda path: path.touch(), "empty", id="empty"),
        pytest.param(lambda path: path.write_text("a\nb\n" * 99), "not an ONNX model", id="text"),
        pytest.param(library, "not an ONNX model", id="library"),
        pytest.param(lambda path: path.write_bytes(b"\x3a" * 9999), "not an ONNX", id="lengths"),
        pytest.param(lambda path: path.write_bytes(b"\xff" * 9999), "not an ONNX", id="numbers"),
        pytest.param(lambda path: path.write_bytes(deep(999)), "not an ONNX", id="deep"),
    ],
)
def test_what_is_no_model_is_refused_by_the_command(tmp_path, capfd, make, told):
    path = tmp_path / "given.onnx"
    make(path)
    with limits():
        assert main(["compile", str(path), "-o", str(tmp_path / "out.so")]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert told in line
    assert not (tmp_path / "out.so").exists()


def test_what_tvm_refuses_is_told_in_one_line(tmp_path, capfd):
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="linear")
    scales = {"scales": np.full(2, 2, "f4")}
    path = tmp_path / "given.onnx"
    integers = TensorProto.INT32  # floats of any rank are resized axis by axis
    onnx.save(model([node], {"x": (integers, [4, 4])}, {"y": (integers, None)}, scales), path)
    assert main(["explain", str(path)]) == 1
    gc.collect()  # TVM warns of a builder when it goes
    (line,) = capfd.readouterr().err.splitlines()
    assert "TVM's importer refuses it" in line


def deep(levels: int) -> bytes:
    """Return the bytes of graphs in attributes of nodes of graphs, with large insides."""
    data = b""
    for _ in range(levels):
        for tag in (b"\x32", b"\x2a", b"\x0a"):  # Attribute.g, Node.attribute, Graph.node
            data = tag + varint(len(data)) + data
    return b"\x42\x02\x10\x12\x3a" + varint(len(data)) + data


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


@pytest.mark.parametrize("kind", ["library", "text", "empty", "pipe", "folder"])
def test_what_is_no_compiled_model_is_not_run(tmp_path, capfd, kind):
    path = tmp_path / "given.so"
    made = {"text": lambda: path.write_text("STITCHED\n"), "empty": path.touch,
            "library": lambda: library(path), "pipe": lambda: os.mkfifo(path),
            "folder": path.mkdir}  # fmt: skip
    made[kind]()
    with limits():
        assert main(["run", str(path)]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert str(path) in line
