"""gyrus.Trainer."""
import gyrus
import numpy
import pytest

SHAPE = (1, 1, 8, 8, 8)


def ball(seed=0):
    """An image of a ball, and the ball: easy to learn."""
    random = numpy.random.default_rng(seed)
    at = numpy.indices(SHAPE[2:]) - random.uniform(3, 4, size=(3, 1, 1, 1))
    inside = (at**2).sum(0) < 6
    image = (inside + random.normal(0, 0.2, SHAPE[2:])).astype("float32")
    return {"image": image[None, None], "target": inside[None].astype("int32")}


def small(**options):
    network = gyrus.MeshNet(classes=2, channels=4, dilations=(1, 2), dropout=options.pop("dropout", 0.0))
    return gyrus.Trainer(network, {"image": SHAPE}, rate=0.01, **options)


def test_a_meshnet_learns():
    trainer = small(optimizer={"kind": "adamw", "weight_decay": 0.01}, dropout=0.1, seed=3)
    assert trainer.names[:3] == ["layer0.weight", "layer0.gamma", "layer0.beta"]
    losses = [trainer.step(ball(i)).loss for i in range(40)]
    assert losses[-1] < 0.3 * losses[0]
    assert trainer.updates == trainer.steps == 40
    sample = ball(99)
    logits = trainer.run({"image": sample["image"]})["logits"]
    assert logits.shape == (1, 2, 8, 8, 8)
    assert (logits.argmax(1) == sample["target"]).mean() > 0.95
    # Nothing is dropped where the network only runs.
    assert (trainer.run({"image": sample["image"]})["logits"] == logits).all()


def test_goes_on_from_a_checkpoint(tmp_path):
    first = small(dropout=0.2, seed=5, schedule={"kind": "cosine", "total": 20})
    for i in range(3):
        first.step(ball(i))
    data = first.save(tmp_path / "checkpoint.safetensors")
    assert (tmp_path / "checkpoint.safetensors").read_bytes() == data
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.safetensors"]
    second = small(dropout=0.2, schedule={"kind": "cosine", "total": 20})
    second.load(tmp_path / "checkpoint.safetensors")
    assert second.updates == 3 and second.rate == first.rate
    for i in range(3, 6):
        assert second.step(ball(i)).loss == first.step(ball(i)).loss
    assert second.save() == first.save()
    other = small()
    other.load(data)
    other.reset_optimizer()
    assert other.updates == 0


def test_parameters_captures_and_outputs():
    trainer = small(frozen=["*.beta"], accumulate=2)
    assert not any(name.endswith(".beta") for name in trainer.names)
    before = trainer.parameters()
    result = trainer.step(ball(), outputs=["logits"], captures=["gradient/output.bias"])
    assert not result.updated and not result.skipped
    assert set(result.outputs) == {"loss", "logits", "gradient/output.bias"}
    gradient = result.outputs["gradient/output.bias"]
    # Softmax: the gradients of the two classes are opposite.
    assert gradient.shape == (2,) and abs(gradient.sum()) < 1e-6 < abs(gradient[0])
    for name, value in trainer.parameters().items():
        assert (value == before[name]).all()
    assert trainer.step(ball()).updated
    assert not (trainer.parameters()["output.weight"] == before["output.weight"]).all()
    trainer.set_parameters(before)
    assert (trainer.parameters()["output.weight"] == before["output.weight"]).all()
    trainer.set_parameters({"output.bias": numpy.ones(2, "float32")}, partial=True)
    with pytest.raises(gyrus.Error, match="missing are"):
        trainer.set_parameters({"output.bias": numpy.ones(2, "float32")})


def test_a_model_folder_is_trained_further(two_layers):
    folder, tensors = two_layers
    trainer = gyrus.Trainer(folder, {"image": SHAPE}, "dice", optimizer="sgd", rate=0.1)
    assert set(trainer.names) == set(tensors)
    for name, value in trainer.parameters().items():
        assert (value == tensors[name]).all()
    # Untrained it is the model.
    image = ball()["image"]
    wanted = gyrus.load(folder).run({"image": image})["logits"]
    assert numpy.abs(trainer.run({"image": image})["logits"] - wanted).max() <= 1e-5 * numpy.abs(wanted).max()
    losses = [trainer.step(ball()).loss for _ in range(10)]
    assert losses[-1] < losses[0]
    # The gradient of a bias by differences.
    trainer = gyrus.Trainer(folder, {"image": SHAPE}, "mse", optimizer="sgd", rate=0.0)
    inputs = {"image": image, "target": numpy.zeros((1, 3, *SHAPE[2:]), "float32")}
    gradient = trainer.step(inputs, captures=["gradient/model.2.bias"]).outputs["gradient/model.2.bias"]
    wanted = 2 * trainer.run({"image": image})["logits"].mean((0, 2, 3, 4)) / 3
    assert numpy.abs(gradient - wanted).max() <= 1e-5 * numpy.abs(wanted).max()


def test_halves_scale_the_loss():
    trainer = small(precision="f16", recompute="cheap")
    assert trainer.loss_scale == 65536
    singles = small()
    for i in range(5):
        step = trainer.step(ball(i))
        assert step.updated and step.loss == pytest.approx(singles.step(ball(i)).loss, rel=0.02)
    assert trainer.skipped == 0 and singles.loss_scale == 1


def test_schedules_and_progress():
    trainer = small(schedule={"kind": "step", "step_size": 1, "gamma": 0.5})
    trainer.step(ball())
    assert trainer.rate == pytest.approx(0.005)
    trainer.set_schedule("constant")
    assert trainer.rate == pytest.approx(0.01)
    with pytest.raises(gyrus.Error) as caught:
        trainer.step(ball(), progress=lambda fraction: False)
    assert caught.value.code == "cancelled"


@pytest.mark.parametrize(
    "options, said",
    [
        (dict(optimizer="newton"), 'kind is "newton", expected one of adam, adamw, sgd'),
        (dict(optimizer={"kind": "sgd", "speed": 1}), 'knows no "speed"; it knows: kind, weight_decay'),
        (dict(schedule={"total": "long"}), "total is 'long', which has the wrong type"),
        (dict(precision="f8"), 'is "f8", expected'),
        (dict(recompute="all"), 'recompute is "all", expected one of none, norms, cheap'),
        (dict(loss="hinge"), "'hinge' is none of: cross_entropy"),
        (dict(output="labels"), "has no output 'labels'; it has: logits"),
        (dict(accumulate=0), "is 0, expected 1 or more"),
    ],
)
def test_refuses(options, said):
    with pytest.raises(gyrus.Error) as caught:
        small(**options)
    assert caught.value.code == "invalid-input"
    assert said in str(caught.value)


def test_a_loss_that_is_not_finite_changes_nothing():
    trainer = small()
    trainer.step(ball())
    before = trainer.save()
    bad = ball()
    bad["image"][0, 0, 0, 0, 0] = numpy.inf
    with pytest.raises(gyrus.Error) as caught:
        trainer.step(bad)
    assert caught.value.code == "non-finite"
    assert trainer.save() == before
