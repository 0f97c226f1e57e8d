"""MeshNet models, volumes and labels from their files, with numpy only: what every peer starts from.

A model is a list of layers in the order of execution; arrays of volumes are indexed [x, y, z] with z fastest in memory,
which is the axis order D, H, W of the networks.
"""
import gzip
import io
import json
import os
import pickle
import struct
import zipfile
from collections import OrderedDict
from dataclasses import dataclass
from typing import Optional

import numpy as np

QUANTILE_MODELS = ("mindgrab", "model20chan3cls")  # the others are scaled by minimum and maximum
NIFTI_HEADER_BYTES = 352
NIFTI_UINT8 = 2


@dataclass
class Layer:
    weight: np.ndarray  # [out, in, kD, kH, kW], f32
    bias: Optional[np.ndarray]
    dilation: int
    padding: int
    norm: bool  # instance norm without affine parameters, eps 1e-5, after the convolution
    activation: str  # "relu", "elu", "gelu" (exact) or "linear"


# Volumes -------------------------------------------------------------------------------------------------------------


def read_volume(path):
    """The voxels of a single-file uint8 NIfTI-1, [x, y, z]."""
    with open(path, "rb") as file:
        raw = file.read()
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    if struct.unpack_from("<i", raw, 0)[0] != 348 or struct.unpack_from("<h", raw, 70)[0] != NIFTI_UINT8:
        raise ValueError(f"{path}: not a little-endian NIfTI-1 file of uint8")
    dims = struct.unpack_from("<8h", raw, 40)
    shape = tuple(dims[1:4])
    start = int(struct.unpack_from("<f", raw, 108)[0])
    voxels = np.frombuffer(raw, np.uint8, count=int(np.prod(shape)), offset=start)
    return np.ascontiguousarray(voxels.reshape(shape, order="F"))


def write_volume(path, voxels):
    """Writes uint8 [x, y, z] as NIfTI-1 of 1 mm voxels, axes L, I, A as conformed scans have them."""
    header = bytearray(NIFTI_HEADER_BYTES)
    struct.pack_into("<i", header, 0, 348)
    struct.pack_into("<8h", header, 40, 3, *voxels.shape, 1, 1, 1, 1)
    struct.pack_into("<hh", header, 70, NIFTI_UINT8, 8)
    struct.pack_into("<8f", header, 76, 1, 1, 1, 1, 1, 1, 1, 1)
    struct.pack_into("<f", header, 108, NIFTI_HEADER_BYTES)
    struct.pack_into("<ff", header, 112, 1, 0)
    struct.pack_into("<hh", header, 252, 0, 1)
    half = [extent / 2 for extent in voxels.shape]
    rows = ((-1, 0, 0, half[0]), (0, 0, 1, -half[2]), (0, -1, 0, half[1]))
    for i, row in enumerate(rows):
        struct.pack_into("<4f", header, 280 + 16 * i, *row)
    header[344:348] = b"n+1\0"
    data = bytes(header) + voxels.astype(np.uint8).tobytes(order="F")
    with open(path, "wb") as file:
        file.write(gzip.compress(data, 1) if path.endswith(".gz") else data)


def normalization(model, voxels):
    """(scale, shift): the network sees clip(voxel * scale + shift, 0, 1)."""
    if model in QUANTILE_MODELS:
        low, high = np.quantile(voxels.astype(np.float64), [0.02, 0.98])
    else:
        low, high = float(voxels.min()), float(voxels.max())
    scale = 1.0 / (high - low) if high > low else 1.0
    return scale, -low * scale


def normalized(model, voxels):
    scale, shift = normalization(model, voxels)
    return np.clip(voxels.astype(np.float64) * scale + shift, 0, 1).astype(np.float32)


def reference_labels(folder, model, shape):
    """Labels from FOLDER/labels_MODEL_*.u8[.gz], [x, y, z], or None."""
    if not folder or not os.path.isdir(folder):
        return None
    for name in sorted(os.listdir(folder)):
        if not name.startswith(f"labels_{model}_"):
            continue
        with open(os.path.join(folder, name), "rb") as file:
            raw = file.read()
        if name.endswith(".gz"):
            raw = gzip.decompress(raw)
        if len(raw) == int(np.prod(shape)):
            return np.frombuffer(raw, np.uint8).reshape(shape, order="F")
    return None


# Weights -------------------------------------------------------------------------------------------------------------


class _TensorUnpickler(pickle.Unpickler):
    """Reads the pickle of a state dict; knows tensors and ordered dictionaries and nothing else."""

    def __init__(self, data, storage):
        super().__init__(data)
        self.storage = storage

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return rebuild_tensor
        if module == "torch" and name.endswith("Storage"):
            return name
        raise pickle.UnpicklingError(f"{module}.{name} is no part of a state dict")

    def persistent_load(self, pid):
        _, kind, key, _, _ = pid
        if kind != "FloatStorage":
            raise pickle.UnpicklingError(f"{kind} is not f32")
        return self.storage(key)


def rebuild_tensor(storage, offset, shape, strides, *_):
    step = storage.itemsize
    view = np.lib.stride_tricks.as_strided(storage[offset:], shape, [s * step for s in strides])
    return np.array(view)


def read_torch_zip(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        pickled = next(n for n in archive.namelist() if n.endswith("/data.pkl"))
        base = pickled[: -len("data.pkl")]
        storage = lambda key: np.frombuffer(archive.read(f"{base}data/{key}"), "<f4")
        return dict(_TensorUnpickler(io.BytesIO(archive.read(pickled)), storage).load())


def read_safetensors(data):
    (length,) = struct.unpack_from("<Q", data, 0)
    header = json.loads(data[8 : 8 + length])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        if entry["dtype"] != "F32":
            raise ValueError(f"{name} is {entry['dtype']}, not F32")
        tensors[name] = np.frombuffer(data[8 + length + begin : 8 + length + end], "<f4").reshape(entry["shape"])
    return tensors


# Models --------------------------------------------------------------------------------------------------------------


def state_dict_layers(config, tensors):
    """Layers of a layer list whose weights are a state dict; channel counts are the weights' own."""

    def place(name):  # "model.10.weight" follows "model.9.weight"
        return [int(part) if part.isdigit() else -1 for part in name.split(".")]

    kernels = [n for n in sorted(tensors, key=place) if n.endswith("weight") and tensors[n].ndim == 5]
    if len(kernels) != len(config["layers"]):
        raise ValueError(f"{len(config['layers'])} layers in the list, {len(kernels)} in the weights")
    activation = "gelu" if config.get("gelu") else "elu" if config.get("elu") else "relu"
    layers = []
    for i, (entry, name) in enumerate(zip(config["layers"], kernels)):
        last = i + 1 == len(kernels)
        bias = tensors.get(name[: -len("weight")] + "bias")
        norm = bool(config.get("bnorm")) and not last
        layers.append(
            Layer(tensors[name], bias, entry["dilation"], entry["padding"], norm, "linear" if last else activation)
        )
    return layers


def tfjs_layers(config, data):
    tensors, offset = {}, 0
    for group in config["weightsManifest"]:
        for entry in group["weights"]:
            count = int(np.prod(entry["shape"]))
            tensors[entry["name"]] = np.frombuffer(data, "<f4", count, offset).reshape(entry["shape"])
            offset += 4 * count
    layers = []
    for node in config["modelTopology"]["model_config"]["config"]["layers"]:
        settings = node["config"]
        if node["class_name"] == "Conv3D":
            kernel = tensors[settings["name"] + "/kernel"].transpose(4, 3, 0, 1, 2)
            dilation = settings["dilation_rate"][0]
            padding = dilation * (kernel.shape[2] // 2)
            bias = tensors.get(settings["name"] + "/bias")
            layers.append(Layer(np.ascontiguousarray(kernel), bias, dilation, padding, False, settings["activation"]))
        elif node["class_name"] == "Activation":
            layers[-1].activation = settings["activation"]
        elif node["class_name"] != "InputLayer":
            raise ValueError(f"a layer of the kind {node['class_name']}")
    return layers


def load_model(folder):
    with open(os.path.join(folder, "model.json")) as file:
        config = json.load(file)
    if "weightsManifest" in config:
        with open(os.path.join(folder, "model.bin"), "rb") as file:
            return tfjs_layers(config, file.read())
    with open(os.path.join(folder, "model.pth"), "rb") as file:
        data = file.read()
    return state_dict_layers(config, read_torch_zip(data) if data[:2] == b"PK" else read_safetensors(data))


def flops(layers, voxels):
    return sum(2.0 * voxels * layer.weight.size for layer in layers)


# A run in numpy, to check the loading on small volumes ---------------------------------------------------------------


def _erf(x):
    """Abramowitz and Stegun 7.1.26: good to 1.5e-7, enough for labels."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.sign(x) * (1 - tail * np.exp(-x * x))


def _activate(kind, x):
    if kind == "relu":
        return np.maximum(x, 0)
    if kind == "elu":
        return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))
    if kind == "gelu":
        return 0.5 * x * (1 + _erf(x / np.sqrt(2)))
    return x


def run_numpy(layers, image):
    """Labels of image [x, y, z], in f32."""
    x = image[None].astype(np.float32)
    shape = image.shape
    for layer in layers:
        pad = layer.padding
        padded = np.pad(x, [(0, 0)] + [(pad, pad)] * 3)
        kernel = layer.weight.shape[2:]
        y = np.zeros((layer.weight.shape[0], int(np.prod(shape))), np.float32)
        for k in np.ndindex(*kernel):
            begin = [i * layer.dilation for i in k]
            part = padded[(slice(None),) + tuple(slice(b, b + n) for b, n in zip(begin, shape))]
            y += layer.weight[(slice(None), slice(None)) + k] @ part.reshape(x.shape[0], -1)
        if layer.bias is not None:
            y += layer.bias[:, None]
        if layer.norm:
            y = (y - y.mean(1, keepdims=True)) / np.sqrt(y.var(1, keepdims=True) + 1e-5)
        x = _activate(layer.activation, y).astype(np.float32).reshape((-1,) + shape)
    return x.argmax(0).astype(np.uint8)
