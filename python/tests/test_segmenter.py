"""gyrus.Segmenter on arrays and images, against numpy and against the command line."""
import re
import threading

import gyrus
import numpy
import pytest

from conftest import ROOT


def voxels_of(shape):
    """Bytes that differ along every axis."""
    x, y, z = numpy.indices(shape)
    return ((x * 7 + y * 31 + z * 113) % 251).astype("uint8")


def labels_of(voxels):
    scaled = (voxels - float(voxels.min())) / (float(voxels.max()) - float(voxels.min()))
    return (scaled >= 0.25).astype("uint8") + (scaled >= 0.625).astype("uint8")


@pytest.mark.parametrize("dtype", ["uint8", "float32", "int16", "float64", ">i2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_labels_keep_their_places(thresholds, dtype, order):
    voxels = voxels_of((9, 10, 11))
    labels = gyrus.Segmenter(thresholds, normalize="minmax").run(numpy.asarray(voxels, dtype, order))
    assert labels.dtype == numpy.uint8 and labels.flags.f_contiguous
    assert numpy.array_equal(labels, labels_of(voxels))


def test_one_segmenter_takes_all_sizes(thresholds):
    segmenter = gyrus.Segmenter(thresholds, normalize="minmax")
    assert segmenter.classes == 3 and segmenter.device in [d.name for d in gyrus.devices()] and segmenter.gpu_bytes == 0
    for shape in ((8, 9, 10), (12, 5, 6), (8, 9, 10)):
        voxels = voxels_of(shape)
        assert numpy.array_equal(segmenter.run(voxels), labels_of(voxels))
    assert segmenter.gpu_bytes > 0 and segmenter.gpu_seconds > 0


@pytest.mark.parametrize("voxels", [
    numpy.zeros((4, 4)), numpy.zeros((4, 4, 4, 1)), numpy.zeros((4, 4, 4), "complex64"), numpy.zeros((0, 4, 4)),
    numpy.array([[["text"]]]), numpy.zeros((4, 4, 4)),
], ids=["2 axes", "4 axes", "complex", "none", "text", "all the same"])
def test_wrong_volumes_are_refused(thresholds, voxels):
    segmenter = gyrus.Segmenter(thresholds)
    with pytest.raises(gyrus.Error) as caught:
        segmenter.run(voxels)
    assert caught.value.code == "invalid-input"
    assert segmenter.classes == 3
    segmenter.run(voxels_of((8, 8, 8)))


def test_progress_may_cancel_and_raise(thresholds):
    def stop(part):
        raise KeyError(part)

    with pytest.raises(KeyError):
        gyrus.Segmenter(thresholds, progress=stop).run(voxels_of((8, 8, 8)))
    with pytest.raises(gyrus.Error) as caught:
        gyrus.Segmenter(thresholds, progress=lambda part: False).run(voxels_of((8, 8, 8)))
    assert caught.value.code == "cancelled"


def test_threads_may_share_a_segmenter(thresholds):
    segmenter, same = gyrus.Segmenter(thresholds, normalize="minmax"), []

    def work(shape):
        voxels = voxels_of(shape)
        for _ in range(3):
            same.append(numpy.array_equal(segmenter.run(voxels), labels_of(voxels)))

    threads = [threading.Thread(target=work, args=(shape,)) for shape in ((8, 9, 10), (10, 9, 8))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert same == [True] * 6


@pytest.mark.parametrize("dtype, slope", [("uint8", 1), ("int16", 1), (">f4", 1), ("int16", 0.3)])
def test_labels_of_an_image_are_the_command_lines(program, tmp_path, dtype, slope):
    nibabel = pytest.importorskip("nibabel")
    program("demo", "--files", "--size", 32, "--out", tmp_path / "demo", "--quiet")
    head = numpy.asarray(nibabel.load(tmp_path / "demo/head.nii.gz").dataobj)[2:, 1:22]
    affine = numpy.array([[0, -1, 0, 9], [1, 0, 0, -4], [0, 0, 2, 3], [0, 0, 0, 1.0]])
    image = nibabel.Nifti1Image(head.astype(dtype), affine)
    if slope != 1:
        image.header.set_slope_inter(slope, 5)
    nibabel.save(image, tmp_path / "head.nii")
    assert nibabel.load(tmp_path / "head.nii").dataobj.slope == pytest.approx(slope)
    program(
        "segment", tmp_path / "head.nii", "--model", tmp_path / "demo", "--no-conform", "-o", tmp_path / "labels.nii"
    )
    wanted = nibabel.load(tmp_path / "labels.nii")
    found = gyrus.Segmenter(tmp_path / "demo").run(nibabel.load(tmp_path / "head.nii"))
    assert isinstance(found, nibabel.Nifti1Image) and found.get_data_dtype() == numpy.uint8
    assert numpy.array_equal(found.affine, affine)
    assert len(numpy.unique(wanted.dataobj)) > 2
    assert numpy.array_equal(numpy.asarray(found.dataobj), numpy.asarray(wanted.dataobj))
    nibabel.save(found, tmp_path / "again.nii.gz")
    again = nibabel.load(tmp_path / "again.nii.gz")
    assert numpy.array_equal(numpy.asarray(again.dataobj), numpy.asarray(wanted.dataobj))


def lines_of(document):
    text = (ROOT / document).read_text()
    return re.search(r"```python\n(import gyrus.*?)```", text, re.DOTALL).group(1)


def test_the_five_lines_of_the_readme_run(program, tmp_path, monkeypatch):
    nibabel = pytest.importorskip("nibabel")
    lines = lines_of("README.md")
    assert lines == lines_of("docs/python.md") and len(lines.splitlines()) == 5
    monkeypatch.chdir(tmp_path)
    program("demo", "--files", "--size", 32, "--out", "out/demo", "--quiet")
    exec(lines, {})
    labels = nibabel.load("labels.nii.gz")
    assert labels.shape == (32, 32, 32) and numpy.asarray(labels.dataobj).max() > 2
