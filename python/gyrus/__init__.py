"""Neural networks on any GPU, through WebGPU; whole-brain segmentation first.

Segmenter labels volumes: numpy arrays, or images of nibabel. load() gives any network that gyrus reads, to run on numpy
arrays, Trainer trains one. devices() lists the GPUs. What goes wrong is an Error with a code.
"""
from gyrus._error import Error
from gyrus._gyrus import Device, devices, version
from gyrus._network import Network, Port, load
from gyrus._segmenter import Segmenter
from gyrus._trainer import MeshNet, Step, Trainer

__version__ = version
__all__ = [
    "Device",
    "Error",
    "MeshNet",
    "Network",
    "Port",
    "Segmenter",
    "Step",
    "Trainer",
    "devices",
    "load",
    "version",
]
