// Stands in for zarrita, with which the viewer would read Zarr stores: not offered here, and half of its code.
export {};
