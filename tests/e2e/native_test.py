"""Labels in the scan's own space against an independent way there: native_test.py PROGRAM [SCAN MODEL].

gyrus conforms and segments an anisotropic, oblique scan. The labels that it gives on the conformed grid are carried to
the scan's grid with scipy (majority of nearest labels at points spread over each voxel) and must agree with those that
gyrus gives there. Without a scan it is a phantom with a tiny model. Exit status 77 where nibabel or scipy is not
installed.
"""
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import tiny_data

try:
    import nibabel
    import numpy
    import scipy.ndimage
except ImportError as missing:
    print(f"SKIP: {missing} (apt install python3-nibabel python3-scipy)")
    sys.exit(77)

LEAST_DICE = 0.99
LEAST_VOXELS = 500  # a label smaller than this is all border
SAMPLES = 5  # a side of each voxel


def phantom():
    """Ellipsoids in a head of 150 mm, voxels of 0.9 x 1.1 x 2.4 mm, turned about all axes, stored as (P, L, S)."""
    turn = numpy.eye(3)
    for axis, degrees in enumerate((11, -7, 17)):
        c, s = numpy.cos(numpy.radians(degrees)), numpy.sin(numpy.radians(degrees))
        one = numpy.eye(3)
        i, j = (axis + 1) % 3, (axis + 2) % 3
        one[i, i], one[i, j], one[j, i], one[j, j] = c, -s, s, c
        turn = one @ turn
    dims = numpy.array([190, 150, 70])
    stored = numpy.array([[0, -1, 0], [-1, 0, 0], [0, 0, 1]])
    affine = numpy.eye(4)
    affine[:3, :3] = turn @ stored @ numpy.diag([0.9, 1.1, 2.4])
    affine[:3, 3] = [4, -9, 12] - affine[:3, :3] @ ((dims - 1) / 2)
    grid = numpy.stack(numpy.meshgrid(*map(numpy.arange, dims), indexing="ij"), -1)
    x, y, z = numpy.moveaxis(grid @ affine[:3, :3].T + affine[:3, 3] - [4, -9, 12], -1, 0)
    values = numpy.full(dims, 40.0)
    values[(x / 65) ** 2 + (y / 75) ** 2 + (z / 60) ** 2 < 1] = 500
    values[((x - 15) / 30) ** 2 + (y / 45) ** 2 + ((z + 5) / 35) ** 2 < 1] = 1000
    values[((x + 35) / 12) ** 2 + ((y - 20) / 15) ** 2 + (z / 20) ** 2 < 1] = 980
    values += numpy.random.default_rng(3).normal(0, 10, dims)
    scan = nibabel.Nifti1Image(values.astype(numpy.int16), affine)
    scan.set_sform(affine, 1)
    scan.set_qform(affine, 1)
    scan.header.set_xyzt_units("mm")
    return scan


def carry_back(labels, labels_affine, scan):
    """For each voxel of the scan the label that most points in it have."""
    to_labels = numpy.linalg.inv(labels_affine) @ scan.affine
    dims = scan.shape[:3]
    grid = numpy.stack(numpy.meshgrid(*map(numpy.arange, dims), indexing="ij"), 0).reshape(3, -1)
    offsets = (numpy.arange(SAMPLES) + 0.5) / SAMPLES - 0.5
    values = numpy.unique(labels)
    votes = numpy.zeros((len(values), grid.shape[1]), numpy.uint8)
    centre = to_labels[:3, :3] @ grid + to_labels[:3, 3:]
    for x in offsets:
        for y in offsets:
            for z in offsets:
                at = centre + (to_labels[:3, :3] @ [x, y, z])[:, None]
                found = scipy.ndimage.map_coordinates(labels, at, order=0, mode="constant", cval=0, prefilter=False)
                for i, value in enumerate(values):
                    votes[i] += found == value
    return values[votes.argmax(0)].reshape(dims)


def gyrus(*arguments):
    done = subprocess.run([PROGRAM, *arguments], stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, f"gyrus {arguments}: {done.stderr}"


def check_header(path, scan, intent):
    """Opens in nibabel with the scan's affine, codes and units."""
    image = nibabel.load(path)
    assert numpy.allclose(image.affine, scan.affine, atol=1e-5), f"{path}: affine\n{image.affine}\n{scan.affine}"
    assert image.shape == scan.shape[:3], f"{path}: {image.shape}"
    for code in ("sform_code", "qform_code"):
        assert int(image.header[code]) == int(scan.header[code]), f"{path}: {code} {image.header[code]}"
    assert image.header.get_xyzt_units()[0] == scan.header.get_xyzt_units()[0], f"{path}: units"
    assert int(image.header["intent_code"]) == intent, f"{path}: intent {image.header['intent_code']}"
    if intent:
        assert image.get_data_dtype() == numpy.uint8, f"{path}: {image.get_data_dtype()}"
    return numpy.asarray(image.dataobj)


def compare(got, want):
    failed = False
    for label in numpy.unique(want):
        ours, theirs = got == label, want == label
        dice = 2 * numpy.count_nonzero(ours & theirs) / (numpy.count_nonzero(ours) + numpy.count_nonzero(theirs))
        print(f"label {label}: {numpy.count_nonzero(theirs)} voxels, Dice {dice:.5f}")
        failed |= dice < LEAST_DICE and numpy.count_nonzero(theirs) >= LEAST_VOXELS
    print(f"{numpy.count_nonzero(got != want)} of {want.size} voxels differ")
    assert not failed, f"a label has a Dice below {LEAST_DICE}"
    assert len(numpy.unique(want)) > 1, "there are no labels to compare"


def main(folder, given):
    name = lambda file: os.path.join(folder, file)
    scan_path, model = given[:2] if given else (name("scan.nii.gz"), name("model"))
    options = []
    if not given:
        tiny_data.write_model(model)
        nibabel.save(phantom(), scan_path)
        options = ["--components", "keep"]
    scan = nibabel.load(scan_path)
    gyrus("conform", scan_path, name("conformed.nii.gz"))
    gyrus("segment", scan_path, "-m", model, "-o", name("native.nii.gz"), "--mask", name("mask.nii.gz"), "--brain",
          name("brain.nii.gz"), *options)
    gyrus("segment", name("conformed.nii.gz"), "-m", model, "-o", name("labels.nii.gz"), *options)
    conformed = nibabel.load(name("labels.nii.gz"))
    assert conformed.shape == (256, 256, 256)
    labels = numpy.asarray(conformed.dataobj)
    native = check_header(name("native.nii.gz"), scan, 1002)
    compare(native, carry_back(labels, conformed.affine, scan))
    mask = check_header(name("mask.nii.gz"), scan, 1002)
    assert numpy.array_equal(mask, native != 0), "the mask is not where labels are"
    brain = check_header(name("brain.nii.gz"), scan, 0)
    assert numpy.array_equal(brain, numpy.where(mask != 0, numpy.asarray(scan.dataobj), 0)), "the brain is not the scan"
    print("passed")


PROGRAM = sys.argv[1]
with tempfile.TemporaryDirectory() as temporary:
    main(temporary, sys.argv[2:])
