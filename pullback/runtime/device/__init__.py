"""Devices at run time, loaded on request only.

export.py     the files of a program for devices
driver.py     CUDA's driver: devices, memory, copies, streams
nvrtc.py      kernels from text to machine code
array.py      arrays on a device, shared by DLPack
executor.py   calls
"""
