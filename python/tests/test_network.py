"""gyrus.load(…).run({…}) on arrays."""
import sys
import threading
import time

import gyrus
import numpy
import pytest


def expected(image, tensors):
    """The two layers in doubles."""
    x = numpy.pad(image[0, 0].astype("float64"), 1)
    extents = image.shape[2:]
    hidden = numpy.zeros((5, *extents))
    for o in range(5):
        for d in numpy.ndindex(3, 3, 3):
            part = x[tuple(slice(a, a + n) for a, n in zip(d, extents))]
            hidden[o] += float(tensors["model.0.weight"][(o, 0, *d)]) * part
        hidden[o] = numpy.maximum(hidden[o] + float(tensors["model.0.bias"][o]), 0)
    mixed = numpy.tensordot(tensors["model.2.weight"][:, :, 0, 0, 0].astype("float64"), hidden, 1)
    return (mixed + tensors["model.2.bias"].astype("float64").reshape(3, 1, 1, 1))[None]


def image_of(shape, seed=1):
    return numpy.random.default_rng(seed).normal(size=(1, 1, *shape)).astype("float32")


def assert_close(found, wanted):
    # Sums of 27 and 5 products in singles.
    assert numpy.abs(found - wanted).max() <= 1e-5 * numpy.abs(wanted).max()


def test_equals_numpy_for_all_shapes_and_strides(two_layers):
    folder, tensors = two_layers
    network = gyrus.load(folder)
    assert network.inputs is None and network.outputs is None
    for shape in ((4, 5, 6), (7, 3, 2), (4, 5, 6)):
        image = image_of(shape)
        result = network.run({"image": image})
        assert list(result) == ["logits"]
        assert result["logits"].dtype == numpy.float32
        assert_close(result["logits"], expected(image, tensors))
    # The plan that was made last.
    assert network.inputs == {"image": (numpy.dtype("float32"), (1, 1, 7, 3, 2))}
    assert network.outputs == {"logits": (numpy.dtype("float32"), (1, 3, 7, 3, 2))}
    wide = image_of((8, 5, 12))
    for view in (wide[..., ::2, :, ::-1], wide.transpose(0, 1, 4, 2, 3), numpy.asfortranarray(wide)):
        assert not view.flags.c_contiguous
        assert_close(network.run({"image": view})["logits"], expected(view, tensors))


def test_shapes_may_be_said_before(two_layers):
    network = gyrus.load(two_layers[0], {"image": (1, 1, 4, 4, 4)}, device=0)
    assert network.inputs["image"].shape == (1, 1, 4, 4, 4)
    assert network.device in [d.name for d in gyrus.devices()]
    with pytest.raises(gyrus.Error) as caught:
        gyrus.load(two_layers[0], {"image": (1, 2, 4, 4, 4)})
    assert caught.value.code == "invalid-input"


def test_results_belong_to_the_caller(two_layers):
    network = gyrus.load(two_layers[0])
    image = image_of((4, 4, 4))
    first = network.run({"image": image})["logits"]
    copy = first.copy()
    del network
    again = gyrus.load(two_layers[0]).run({"image": image + 1})["logits"]
    assert numpy.array_equal(first, copy) and not numpy.array_equal(first, again)
    first[:] = 0  # may be written to
    assert memoryview(first).nbytes == first.nbytes


def test_takes_dlpack_and_buffers_through_numpy(two_layers):
    network = gyrus.load(two_layers[0])
    image = image_of((4, 4, 4))
    wanted = network.run({"image": image})["logits"]
    assert numpy.array_equal(network.run({"image": numpy.from_dlpack(image)})["logits"], wanted)
    assert numpy.array_equal(network.run({"image": memoryview(image)})["logits"], wanted)
    assert numpy.array_equal(numpy.from_dlpack(wanted), wanted)


def test_halves_are_close(two_layers):
    image = image_of((4, 4, 4))
    wanted = expected(image, two_layers[1])
    found = gyrus.load(two_layers[0], precision="f16").run({"image": image})["logits"]
    error = numpy.abs(found - wanted).max() / numpy.abs(wanted).max()
    assert 1e-6 < error < 5e-3  # 11 bits, and really so


@pytest.mark.parametrize("inputs, words", [
    ({"image": numpy.zeros((1, 1, 4, 4, 4))}, "float64.*astype"),
    ({"image": numpy.zeros((1, 1, 4, 4, 4), ">f4")}, "astype"),
    ({"image": numpy.zeros((1, 1, 4, 4, 4), "int32")}, "takes f32"),
    ({"image": numpy.zeros((1, 2, 4, 4, 4), "float32")}, "image"),
    ({"image": numpy.zeros(3, "float32")}, "image"),
    ({"picture": numpy.zeros((1, 1, 4, 4, 4), "float32")}, "picture"),
    ({}, "image"),
])
def test_wrong_inputs_are_refused(two_layers, inputs, words):
    network = gyrus.load(two_layers[0])
    with pytest.raises(gyrus.Error, match=words) as caught:
        network.run(inputs)
    assert caught.value.code == "invalid-input"
    network.run({"image": image_of((4, 4, 4))})  # it stays usable


def test_progress_may_cancel_and_raise(two_layers):
    network = gyrus.load(two_layers[0])
    inputs = {"image": image_of((8, 8, 8))}
    parts = []
    network.run(inputs, progress=parts.append)
    assert parts and parts == sorted(parts) and parts[-1] <= 1
    with pytest.raises(gyrus.Error) as caught:
        network.run(inputs, progress=lambda part: False)
    assert caught.value.code == "cancelled"
    with pytest.raises(ZeroDivisionError):
        network.run(inputs, progress=lambda part: 1 / 0)
    network.run(inputs)


def test_computing_releases_the_interpreter(two_layers):
    """Another thread goes on while one computes, though the interpreter takes its lock from nobody."""
    network = gyrus.load(two_layers[0])
    inputs = {"image": image_of((32, 32, 32))}
    network.run(inputs)  # compiles
    turns, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            turns[0] += 1
            time.sleep(0)  # gives the lock away

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    counter = threading.Thread(target=count)
    try:
        counter.start()
        moved = False
        for _ in range(50):  # the system may be busy elsewhere for a run or two
            before = turns[0]
            network.run(inputs)
            moved = moved or turns[0] > before
            if moved:
                break
    finally:
        stop.set()
        sys.setswitchinterval(interval)
    counter.join()
    assert moved


def test_threads_may_share_a_network(two_layers):
    folder, tensors = two_layers
    shared, errors = gyrus.load(folder), []

    def work(network, seed):
        try:
            for turn in range(4):
                image = image_of((4 + seed, 5, 6), 10 * seed + turn)
                assert_close(network.run({"image": image})["logits"], expected(image, tensors))
        except BaseException as error:  # for the main thread to raise
            errors.append(error)

    networks = [shared, shared, gyrus.load(folder)]
    threads = [threading.Thread(target=work, args=(network, i)) for i, network in enumerate(networks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
