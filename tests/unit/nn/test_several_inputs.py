"""Networks with several inputs and results: types, training, exports, and what is said where names do not fit."""

from __future__ import annotations

import dataclasses
import functools
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import pullback as pb
from pullback import data, nn, onnx
from pullback.errors import PullbackError
from pullback.nn.scope import Scope
from tests.strict import QUIET

COMPILER = shutil.which("gcc") or shutil.which("cc")
CHECKED = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-g", "-O1", *QUIET, "-fsanitize=address,undefined"]
TAKES = {"image": "N 2 3", "words": "N 5"}
LOSS = {"label": nn.cross_entropy, "box": nn.mse_loss}
NET = (
    nn.parallel(image=nn.flatten() >> nn.dense(4), words=nn.embedding(7, 3) >> nn.flatten())
    >> nn.concat()
    >> nn.relu
    >> nn.heads(label=nn.dense(3), box=nn.dense(2))
).named("pair").on(TAKES)  # fmt: skip
NAME = str(NET)


def samples(count: int = 40) -> tuple[dict[str, Any], dict[str, Any]]:
    random = np.random.default_rng(0)
    image = random.normal(size=(count, 2, 3)).astype(np.float32)
    words = random.integers(0, 7, (count, 5))
    box = np.stack([image.mean((1, 2)), (words % 2).mean(1)], 1).astype(np.float32)
    return {"image": image, "words": words}, {"label": (words.sum(1) % 3).astype(np.int64), "box": box}


X, T = samples()


def by_hand(p: Any, x: Any) -> dict[str, Any]:
    """The network in NumPy."""
    first, second = p["parallel1"]["image"]["dense1"], p["parallel1"]["words"]["embedding1"]
    image = x["image"].reshape(len(x["image"]), -1) @ first["w"].T + first["b"]
    words = second["w"][x["words"]].reshape(len(x["words"]), -1)
    hidden = np.maximum(np.concatenate([image, words], 1), 0)
    return {name: hidden @ p["heads1"][name]["w"].T + p["heads1"][name]["b"] for name in ("label", "box")}


def loss_by_hand(y: Any, t: Any) -> tuple[float, float]:
    """The mean squared error of the boxes, and the cross entropy of the labels."""
    scores = y["label"] - y["label"].max(1, keepdims=True)
    likely = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    return float(np.mean((y["box"] - t["box"]) ** 2)), float(-likely[np.arange(len(scores)), t["label"]].mean())


def message(f: Any) -> str:
    with pytest.raises(PullbackError) as caught:
        f()
    error = caught.value
    return f"{error.code} {error.what} | {'; '.join(error.facts)} | {error.remedy}"


# Types and values -------------------------------------------------------------------------------------------------


def test_types_and_descriptions_have_the_names() -> None:
    assert [" ".join(line.split()) for line in str(NET.type).splitlines()] == [
        "(x: {image: f32[N, 2, 3], words: i64[N, 5]}) -> {box: f32[N, 2], label: f32[N, 3]}",
        "parallel1/image/flatten1 flatten() f32[N, 6]",
        "parallel1/image/dense1 dense(4) f32[N, 4] w f32[4, 6], b f32[4]",
        "parallel1/words/embedding1 embedding(7, 3) f32[N, 5, 3] w f32[7, 3]",
        "parallel1/words/flatten1 flatten() f32[N, 15]",
        "concat1 concat() f32[N, 19]",
        "relu1 relu f32[N, 19]",
        "heads1/label dense(3) f32[N, 3] w f32[3, 19], b f32[3]",
        "heads1/box dense(2) f32[N, 2] w f32[2, 19], b f32[2]",
    ]
    described = NET.describe(batch_size=4, loss=LOSS)
    lines = str(described).splitlines()
    assert lines[0] == "pair(x: {image: f32[4, 2, 3], words: i64[4, 5]}) -> {box: f32[4, 2], label: f32[4, 3]}"
    assert lines[-1] == (
        "training: an update with loss box: mse_loss + label: cross_entropy; targets float32[4, 2], int64[4] "
        "(assumed); optimizer sgd(0.01) (assumed)"
    )
    assert [row.bytes for row in described.rows] == [96, 64, 240, 240, 304, 304, 48, 32]
    assert "parallel1/image" in NET.type._repr_html_()


def test_values_are_those_of_numpy() -> None:
    p, _ = NET.init(seed=1, dtype=np.float64)
    x = {**X, "image": X["image"].astype(np.float64)}
    wanted = by_hand(p, x)
    for found in (NET(p, x), pb.function(lambda p, x: NET(p, x)).interpret(p, x)):
        assert sorted(found) == ["box", "label"]
        for name in wanted:
            np.testing.assert_allclose(found[name], wanted[name], rtol=1e-12, atol=1e-13)


def test_gradients_are_those_of_finite_differences() -> None:
    p, _ = NET.init(seed=1, dtype=np.float64)
    x = {**X, "image": X["image"].astype(np.float64)}
    of_batch = pb.function(nn.objective(NET, LOSS))
    (value, _), slopes = pb.value_and_grad(of_batch, wrt="parameters", has_aux=True)(p, {}, (x, T))
    np.testing.assert_allclose(value, sum(loss_by_hand(by_hand(p, x), T)), rtol=1e-12)
    for path in (("heads1", "box", "w"), ("heads1", "label", "b"), ("parallel1", "words", "embedding1", "w")):
        slope: Any = slopes
        for name in path:
            slope = slope[name]
        at = (0,) * slope.ndim
        found = []
        for step in (1e-6, -1e-6):
            moved = pb.tree_map(np.array, p)
            array: Any = moved
            for name in path:
                array = array[name]
            array[at] += step
            found.append(sum(loss_by_hand(by_hand(moved, x), T)))
        np.testing.assert_allclose(slope[at], (found[0] - found[1]) / 2e-6, rtol=1e-5, atol=1e-9)


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass
class Both:
    left: Any
    right: Any


@pytest.mark.parametrize("kind", [Pair, Both, lambda left, right: (left, right), lambda left, right: [left, right]])
def test_trees_of_any_kind(kind: Any) -> None:
    @nn.layer(kind("N M", "N M"))
    def minus(scope: Scope, inputs: Any) -> Any:
        left, right = vars(inputs).values() if isinstance(inputs, Both) else inputs
        return kind(left - scope.parameter("a", (left.shape[1],)) * right, right)

    net = minus().on(kind("N 2", "N 2"))
    p = {"a": np.array([2.0, 3.0], np.float32)}
    x = kind(np.ones((4, 2), np.float32), np.full((4, 2), 0.5, np.float32))
    y = net(p, x)
    left = y.left if hasattr(y, "left") else y[0]
    np.testing.assert_array_equal(left, [[0.0, -0.5]] * 4)
    one: dict[str, Any] = {"optimizer": nn.sgd(0.1), "epochs": 1, "progress": False, "parameters": p}
    loss = (nn.mse_loss, None) if not hasattr(y, "left") else {"left": nn.mse_loss, "right": None}
    run = nn.fit(net, loss, (x, kind(np.zeros((4, 2), np.float32), np.zeros((4, 2), np.float32))), **one)
    np.testing.assert_allclose(run.parameters["a"], p["a"] - 0.1 * np.array([0.0, 0.5]) * 0.5, rtol=1e-6)


def test_a_name_twice_is_one_size_and_parallel_keeps_others_apart() -> None:
    net = nn.parallel(a=nn.dense(2), b=nn.dense(3), c=nn.embedding(4, 2))
    assert net.takes == {"a": "N M_a", "b": "N M_b", "c": "i64[N, L]"}
    assert net.type.takes == "{a: f32[N, M_a], b: f32[N, M_b], c: i64[N, L]}"

    @nn.layer({"a": "N M", "b": "M K"})
    def product(scope: Scope, x: Any) -> Any:
        return x["a"] @ x["b"]

    assert product().type.result == "f32[N, K]"

    @nn.layer({"a": "N M", "b": "N K"})
    def added(scope: Scope, x: Any) -> Any:
        scope.unify(x["a"].shape, x["b"].shape, "they differ")
        return x["a"] + x["b"]

    assert added().type.takes == "{a: f32[N, K], b: f32[N, K]}"


# Training ---------------------------------------------------------------------------------------------------------

HOW: dict[str, Any] = {"optimizer": nn.adam(0.02), "batch_size": 8, "progress": False}


@pytest.mark.slow
def test_a_dict_of_losses_is_their_sum() -> None:
    one = nn.fit(NET, LOSS, (X, T), epochs=3, **HOW)
    two = nn.fit(NET, lambda y, t: nn.mse_loss(y["box"], t["box"]) + nn.cross_entropy(y["label"], t["label"]), (X, T),
                 epochs=3, **HOW)  # fmt: skip
    assert one.history.losses == two.history.losses
    for a, b in zip(leaves_of(one.parameters), leaves_of(two.parameters), strict=True):
        np.testing.assert_array_equal(a, b)
    assert one.history.losses[-1] < 0.9 * one.history.losses[0]


def leaves_of(tree: Any) -> list[Any]:
    from pullback.tracing.tree import flatten

    return flatten(tree)[0]


@pytest.mark.slow
def test_columns_of_losses_and_metrics_by_name() -> None:
    worst = nn.metrics.on_outputs(lambda y, t: np.abs(y - t).max(), name="worst")
    metrics = {"label": [nn.metrics.accuracy, nn.metrics.perplexity], "box": worst}
    run = nn.fit(NET, LOSS, (X, T), epochs=2, validation_data=(X, T), metrics=metrics, **HOW)
    measured = nn.evaluate(NET, LOSS, (X, T), parameters=run.parameters, metrics=metrics)
    y = by_hand(run.parameters, X)
    box, label = loss_by_hand(y, T)
    wanted = {
        "box_loss": box, "label_loss": label, "label_accuracy": np.mean(y["label"].argmax(1) == T["label"]),
        "label_perplexity": np.exp(label), "box_worst": np.abs(y["box"] - T["box"]).max(),
    }  # fmt: skip
    assert list(measured) == ["loss", *wanted]
    for name, value in wanted.items():
        np.testing.assert_allclose(measured[name], value, rtol=1e-5)
        np.testing.assert_allclose(run.history[name][-1], value, rtol=1e-5)
    np.testing.assert_allclose(measured["loss"], box + label, rtol=1e-5)


@pytest.mark.slow
def test_loaders_and_data_sets_give_what_arrays_give() -> None:
    class Loader:
        def __iter__(self) -> Iterator[Any]:
            for k in range(0, 40, 8):
                yield {n: a[k : k + 8] for n, a in X.items()}, {n: a[k : k + 8] for n, a in T.items()}

    of_arrays = nn.fit(NET, LOSS, (X, T), epochs=2, shuffle=False, **HOW)
    of_batches = nn.fit(NET, LOSS, Loader(), epochs=2, **{**HOW, "batch_size": None})
    of_set = nn.fit(NET, LOSS, data.Dataset(X, T), epochs=2, shuffle=False, **HOW)
    for one, other, third in zip(*(leaves_of(run.parameters) for run in (of_arrays, of_batches, of_set)), strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(one, third)


@pytest.mark.slow
def test_a_resumed_run_has_the_bits_of_one_run(tmp_path: Path) -> None:
    metrics = {"label": nn.metrics.accuracy}
    how = {**HOW, "validation_data": (X, T), "metrics": metrics}
    whole = nn.fit(NET, LOSS, (X, T), epochs=4, **how)
    nn.fit(NET, LOSS, (X, T), epochs=2, save=str(tmp_path), **how)
    rest = nn.fit(NET, LOSS, (X, T), epochs=4, save=str(tmp_path), resume=True, **how)
    for a, b in zip(leaves_of(whole.parameters), leaves_of(rest.parameters), strict=True):
        np.testing.assert_array_equal(a, b)
    assert whole.history["label_loss"] == rest.history["label_loss"]


# Exports ----------------------------------------------------------------------------------------------------------


def program(folder: Path, *arguments: str) -> str:
    return subprocess.run(["./program", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def built(folder: Path) -> None:
    assert COMPILER is not None
    sources = sorted(str(p) for p in folder.glob("*.c"))
    subprocess.run([COMPILER, *CHECKED, *sources, "-o", "program", "-lm"], cwd=folder, check=True)


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
@pytest.mark.parametrize("weights", ["const", "file"])
def test_c_of_two_inputs_and_two_results(tmp_path: Path, weights: Any) -> None:
    p, _ = NET.init(seed=3)
    NET.export(tmp_path, p, weights=weights)
    built(tmp_path)
    X["image"].tofile(tmp_path / "image")
    X["words"].tofile(tmp_path / "words")
    lines = program(tmp_path, "infer", "image", "words").splitlines()
    rows = np.array([list(map(float, line.split())) for line in lines])
    y = by_hand(p, X)
    np.testing.assert_allclose(rows, np.concatenate([y["box"], y["label"]], 1), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_a_program_trains_on_files_of_each_array(tmp_path: Path) -> None:
    p, _ = NET.init(seed=3)
    NET.export(tmp_path, p, what="both", loss=LOSS, optimizer=nn.sgd(0.1), batch_size=8)
    built(tmp_path)
    for name, array in {**X, **T}.items():
        array.tofile(tmp_path / name)
    found = [float(line.split()[-1]) for line in program(tmp_path, "train", "image", "words", "box", "label", "3")
             .splitlines()]  # fmt: skip
    run = nn.fit(NET, LOSS, (X, T), optimizer=nn.sgd(0.1), batch_size=8, epochs=3, shuffle=False, parameters=p,
                 progress=False)  # fmt: skip
    np.testing.assert_allclose(found, run.history.losses, rtol=1e-4)
    done = subprocess.run(["./program"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr == (
        "pair infer IMAGE WORDS                   the result for every sample, one a line\n"
        "pair train IMAGE WORDS BOX LABEL EPOCHS  updates for 8 samples each, in their order\n"
    )
    X["words"][:7].tofile(tmp_path / "words")
    done = subprocess.run(["./program", "infer", "image", "words"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "image: 40 inputs, words: 7 inputs\n")
    (T["label"] + 1).tofile(tmp_path / "label")
    done = subprocess.run(["./program", "train", "image", "words", "box", "label", "1"], cwd=tmp_path,
                          capture_output=True, text=True)  # fmt: skip
    place = int(np.argmax(T["label"] == 2))
    assert done.stderr.splitlines()[0] == f"label: sample {place}: the label is 3, and there are 3 classes"


def test_onnx_files_of_two_inputs_and_two_results(tmp_path: Path) -> None:
    p, _ = NET.init(seed=3)
    path = tmp_path / "pair.onnx"
    onnx.save(NET.function(), path, p, N=40)
    session = ReferenceEvaluator(str(path))
    graph: Any = session.proto_.graph
    assert [i.name for i in graph.input] == ["x_image", "x_words"]
    found = session.run(None, {f"x_{name}": x for name, x in X.items()})
    y = by_hand(p, X)
    for result, name in zip(found, ("box", "label"), strict=True):
        np.testing.assert_allclose(result, y[name], rtol=1e-4, atol=1e-5)


# What is said ---------------------------------------------------------------------------------------------------------

OF = "a tree as the network takes it: {image: N 2 3, words: i64[N, 5]}"


@pytest.mark.parametrize(
    ("x", "said"),
    [
        ({"image": X["image"]}, f"E168 {NAME}: the input is a dict of 'image': there is no 'words' |  | {OF}"),
        ({"image": X["image"], "word": X["words"]},
         f"E168 {NAME}: the input is a dict of 'image', 'word': there is no 'words'; 'word' is not taken |  | {OF}"),
        ({**X, "age": X["image"]},
         f"E168 {NAME}: the input is a dict of 'age', 'image', 'words': 'age' is not taken |  | {OF}"),
        (X["image"], f"E168 {NAME}: the input is one array, and a dict of 'image', 'words' is taken |  | {OF}"),
        ({**X, "image": (X["image"],)},
         f"E168 {NAME}: the input['image'] is a tuple of 1, and one array is taken |  | {OF}"),
        ({**X, "words": X["words"][:7]}, f"E168 {NAME}: image has N = 40, and words has N = 7 |  | "
                                         "arrays of the sizes that the network takes"),
        ({**X, "words": X["words"][:, :4]}, f"E168 {NAME}: words is i64[40, 4], and [N, 5] is taken |  | "
                                            "arrays of the sizes that the network takes"),
    ],
)  # fmt: skip
def test_inputs_that_do_not_fit(x: Any, said: str) -> None:
    p, _ = NET.init(seed=0)
    assert message(lambda: NET(p, x)) == said


def test_sizes_that_do_not_fit() -> None:
    assert message(lambda: NET.on({"image": "N 2 3"})) == (
        f"E168 on: {NAME}: the input is a dict of 'image': there is no 'words' |  | {OF}"
    )
    assert message(lambda: NET.on({"image": "N 2 3", "words": 5})) == (
        "E163 on: words is 5, and the sizes of an array are one text |  | "
        '`{"image": "N 1 28 28", "tokens": "i64[N, L]"}`'
    )
    assert message(lambda: nn.dense(3).on({"a": "N 2", "b": "N 2"})) == (
        "E168 dense takes one array, and was given {a: f32[N, 2], b: f32[N, 2]} |  | "
        "`nn.parallel` applies a layer to each input by name, and `nn.concat` joins them"
    )
    for make in (nn.parallel, nn.heads):
        assert message(make) == (
            f"E163 {make.__name__} of no layers |  | `nn.{make.__name__}(left=nn.dense(3), right=nn.dense(5))`"
        )
    net = nn.parallel(a=nn.dense(2), b=nn.dense(2))
    for takes, given in (("N 3", "f32[N, 3]"), ({"a": "N 2", "c": "N 2"}, "{a: f32[N, 2], c: f32[N, 2]}")):
        chain = nn.sequential(lambda x: x, net)
        assert message(lambda takes=takes, chain=chain: dataclasses.replace(chain, takes=None).on(takes)) == (
            f"E168 parallel takes a dict of 'a', 'b', and was given {given} | in parallel1 = {net}, which was given "
            f"{given} by function1 | an input for each layer, by its name"
        )
    assert message(lambda: net.export("x", {})) == (
        "E164 export: the sizes of a of parallel(a=dense(2), b=dense(2)) are open: N M_a |  | "
        'give them: `net.on("N 784")` for rows, `net.on("N 1 28 28")` for images'
    )


fit = functools.partial(nn.fit, optimizer=nn.sgd(0.1), epochs=1, progress=False)
GOOD = ({n: a[:8] for n, a in X.items()}, {n: a[:8] for n, a in T.items()})
FEWER = {**GOOD[0], "words": X["words"][:7]}


@pytest.mark.parametrize(
    ("loss", "given", "said"),
    [
        ({"label": nn.cross_entropy}, (X, T), "E518 there is no loss for 'box', one of 'box', 'label' |  | "
         "`{'box': …}`, or None for a result that is not trained"),
        ({**LOSS, "more": nn.mse_loss}, (X, T), "E518 there is a loss for 'more', and the results are 'box', 'label' "
         "|  | a loss for each result, by its name"),
        ({"label": None, "box": None}, (X, T), "E518 there is no loss for any result |  | `{name: nn.cross_entropy}`"),
        (LOSS, (X, {"label": T["label"]}), "E508 there is no target for 'box' | the targets are 'label' | "
         "a pair (inputs, targets) with a target for each of 'box', 'label'"),
        (LOSS, (X, T["label"]), "E508 there is no target for 'box', 'label' | the targets are one array | "
         "a pair (inputs, targets) with a target for each of 'box', 'label'"),
        (LOSS, (X, {**T, "age": T["box"]}), "E508 there is a target for 'age', which has no loss | "
         "the targets are 'age', 'box', 'label' | targets for 'box', 'label'"),
        (LOSS, ({"image": X["image"]}, T), f"E508 fit: {NAME}: the input is a dict of 'image': there is no 'words' | "
         f"the data gives {{'image': *}} | {OF}"),
        (LOSS, (X["image"], T), f"E508 fit: {NAME}: the input is one array, and a dict of 'image', 'words' is taken | "
         f"the data gives one array, float32[32, 2, 3] | {OF}"),
        (LOSS, ({**X, "words": X["words"][:, :4]}, T), f"E508 {NAME}: words is i64[N, 5] | a batch of the data has "
         "words : int64[32, 4] | data of that size, or `net.on({…})` with the sizes of the data"),
        (LOSS, ({**X, "words": X["words"][:9]}, T), "E512 the arrays of the data differ in how many samples they have "
         "| data[0]['image'] : 40; data[0]['words'] : 9; data[1]['box'] : 40; data[1]['label'] : 40 | "
         "arrays with the same first size"),
        (LOSS, (X, {**T, "label": T["label"] + 5 * (np.arange(40) == 3)}), "E513 data, targets['label']: the label of "
         f"sample 3 is {T['label'][3] + 5}, and there are 3 classes | labels outside of 0 … 2: 1 of 40 | labels from 0 "
         "to 2, or a network with more classes"),
        (LOSS, [GOOD, ({"image": X["image"]}, T)], "E508 list: the batch[0] is a dict of 'image': there is no 'words' "
         "in batch 2 of epoch 1 | the first batch is ({'image': *, 'words': *}, {'box': *, 'label': *}) | "
         "batches of one structure"),
        (LOSS, [GOOD, (FEWER, GOOD[1])], "E512 list: the arrays differ in how many samples they have in batch 2 of "
         "epoch 1 | image : 8; words : 7; target box : 8; target label : 8 | arrays with the same first size"),
        (LOSS, [(FEWER, GOOD[1])], f"E512 a batch of {NAME}: the arrays differ in how many samples they have | "
         "image : 8; words : 7; target box : 8; target label : 8 | arrays with the same first size"),
    ],
)  # fmt: skip
def test_data_and_losses_that_do_not_fit(loss: Any, given: Any, said: str) -> None:
    assert message(lambda: fit(NET, loss, given)) == said


def test_losses_and_metrics_of_other_results() -> None:
    assert message(lambda: fit(nn.dense(3), LOSS, (X["image"][:, 0], T))) == (
        "E518 losses of 'box', 'label', and the network has one result |  | "
        "one loss, or a network of several results, as `nn.heads` makes"
    )
    metrics = {"labl": nn.metrics.accuracy}
    assert message(lambda: fit(NET, LOSS, (X, T), metrics=metrics, validation_data=(X, T))) == (
        "E518 metrics: there is no 'labl' among the results | results: 'box', 'label' | "
        "a dict with the names of results"
    )
    assert message(lambda: NET.describe(4, loss=lambda y, t: nn.mse_loss(y["box"], t))) == (
        "E518 describe: the targets of a loss of several results are not known |  | "
        "`target=`, example targets of a batch, or a dict of losses"
    )


def test_data_sets_of_trees() -> None:
    both = data.Dataset(X, T).transformed(image=data.scale(2.0))
    assert repr(both) == (
        "Dataset(data: inputs['image'] float32[40, 2, 3], inputs['words'] int64[40, 5], targets['box'] float32[40, 2], "
        "targets['label'] int64[40])"
    )
    x, t = both.split(0.5)[1].batch(np.array([0, 3]))
    np.testing.assert_array_equal(x["image"], X["image"][[20, 23]] / 2)
    np.testing.assert_array_equal(t["label"], T["label"][[20, 23]])
    assert message(lambda: data.Dataset(X, {**T, "box": T["box"][:7]})) == (
        "E507 data: the arrays differ in how many samples they have | inputs['image'] : 40; inputs['words'] : 40; "
        "targets['box'] : 7; targets['label'] : 40 | arrays with the same first size"
    )
    assert message(lambda: both.transformed(data.scale())) == (
        "E508 data: a transform of several inputs without a name | inputs['image']; inputs['words'] | "
        "`transformed(image=data.scale())`"
    )
    assert message(lambda: both.transformed(age=data.scale())) == (
        "E508 data: a transform of 'age', which is no input | inputs['image'] float32[40, 2, 3]; inputs['words'] "
        "int64[40, 5]; targets['box'] float32[40, 2]; targets['label'] int64[40] | the name of an input, where inputs "
        "are a dict"
    )
    assert message(lambda: both.split(0.5, stratified=True)) == (
        "E507 data: a stratified split needs one label for each sample | targets: several arrays | "
        "labels of shape (N,), or a split that is not stratified"
    )
