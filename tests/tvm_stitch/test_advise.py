"""`advise` tells what stitching is predicted to gain, and when it is not worth it."""

from __future__ import annotations

import subprocess
import sys

import onnx
import onnx.parser
import pytest
import zoo
from zoo.graph import Graph

import tvm_stitch
from relay_passes.graph.fusion_plan import Forecast
from support.kernels import stitch_case as sc
from tvm_stitch.cli import main
from tvm_stitch.reports.advice import Advice


def product() -> onnx.ModelProto:
    g = Graph("product")
    x = g.op("MatMul", g.input("x", (512, 512)), g.weight("w", (512, 512)))
    g.output(x, "y", (512, 512))
    return g.model()


def test_a_memory_intensive_model_is_worth_it():
    advice = tvm_stitch.advise(sc.Case("layernorm_decomposed", (4096, 1024)).model())
    assert advice.memory_share == 1.0
    assert advice.kernels == 1 < advice.kernels_apart
    assert advice.low <= advice.gain <= advice.high
    assert str(advice).splitlines()[-1] == "stitching is worth it"


def test_a_product_alone_is_not():
    advice = tvm_stitch.advise(product())
    assert advice.memory_share == 0.0
    assert advice.gain == 1.0
    assert "stitching is not worth it: too little of the time" in str(advice)


@pytest.mark.parametrize(
    ("together", "verdict"), [(100.0, "worth it"), (950.0, "in doubt"), (1000.0, "in doubt")]
)
def test_the_verdict_is_of_the_whole_interval(together, verdict):
    advice = Advice.of([Forecast(1000.0, together, 0.0, 0)], 9, 1)
    assert advice.verdict.startswith(verdict)


def test_ops_nothing_is_known_of_are_told():
    advice = Advice.of([Forecast(10.0, 5.0, 1.0, 2), Forecast(10.0, 5.0, 1.0, 1)], 9, 3)
    assert "3 ops are not in these figures" in str(advice)


def test_the_command_prints_it(tmp_path, capsys):
    path = tmp_path / "bert.onnx"
    onnx.save(zoo.model("bert", **zoo.SMALL["bert"]), path)
    assert main(["advise", str(path), "--threads", "1"]) == 0
    told = capsys.readouterr().out
    assert "one kernel an op: " in told
    assert "times as fast (between " in told


def test_explain_with_little_fuel_stops_fusing_early(tmp_path, capsys):
    path = tmp_path / "layernorm.onnx"
    onnx.save(sc.Case("layernorm_decomposed", (64, 256)).model(), path)
    reports = [tvm_stitch.explain(path, fuel=fuel) for fuel in (0, 3, 4, None)]
    kernels = [report.kernels for report in reports]
    assert kernels[0] >= kernels[1] == kernels[2] + 1 > kernels[3] == 1
    assert reports[2].rewrites == 4
    assert reports[2].last_rewrite.startswith("fuse at ")
    assert main(["explain", str(path), "--fuel", "3"]) == 0
    told = capsys.readouterr().out
    assert told.strip() == str(reports[1]).strip()
    assert "3 rewrites, the last: " in told
    assert "out of fuel" in told


def test_explain_names_the_nodes_of_the_model_and_not_operators_made_of_them(tmp_path, capsys):
    path = tmp_path / "model.onnx"
    text = """<ir_version: 8, opset_import: ["" : 17]>
    m (float[64, 96] x, float[96] s, float[96] b) => (float[64, 96] y) {
      [norm] n = LayerNormalization(x, s, b)
      [act] y = Softplus(n)
    }"""
    onnx.save(onnx.parser.parse_model(text), path)
    (group,) = tvm_stitch.explain(path).groups
    assert group.nodes == ["LayerNormalization 'norm'", "Softplus 'act'"]
    assert main(["explain", str(path)]) == 0
    assert "of LayerNormalization 'norm', Softplus 'act'" in capsys.readouterr().out


def test_more_threads_than_cpus_are_noted(tmp_path, capsys):
    path = tmp_path / "model.onnx"
    onnx.save(zoo.subgraph("layernorm_decomposed", (64, 96)), path)
    assert main(["explain", str(path), "--threads", "4096"]) == 0
    assert "note: --threads 4096: this process may use " in capsys.readouterr().err
    assert main(["explain", str(path), "--threads", "1"]) == 0
    assert "note" not in capsys.readouterr().err


def test_a_reader_that_has_enough_gets_no_traceback(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(zoo.subgraph("layernorm_decomposed", (64, 96)), path)
    command = f"{sys.executable} -m tvm_stitch.cli explain {path} | true"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_explain_prints_the_plan_of_a_kernel_by_its_name(tmp_path, capsys):
    path = tmp_path / "model.onnx"
    onnx.save(zoo.subgraph("layernorm_decomposed", (64, 96)), path)
    ((name, page),) = tvm_stitch.plans(path).items()
    assert main(["explain", str(path), "--plan", name]) == 0
    assert capsys.readouterr().out == f"{page}\n"
    assert main(["explain", str(path), "--plan", "none"]) == 1
    assert name in capsys.readouterr().err
