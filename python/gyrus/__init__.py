"""Neural networks on any GPU, through WebGPU; whole-brain segmentation first.

Segmenter labels volumes: numpy arrays, or images of nibabel. load() gives any network that gyrus reads, to run on numpy
arrays. devices() lists the GPUs. What goes wrong is an Error with a code.
"""
from gyrus._error import Error
from gyrus._gyrus import Device, devices, version
from gyrus._network import Network, Port, load
from gyrus._segmenter import Segmenter

__version__ = version
__all__ = ["Device", "Error", "Network", "Port", "Segmenter", "devices", "load", "version"]
