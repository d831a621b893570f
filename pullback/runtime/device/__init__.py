"""Devices at run time, loaded on request only.

export.py     the files of a program for devices
driver.py     what arrays and calls ask of a device
cuda.py       CUDA's devices: memory, copies, streams
nvrtc.py      kernels from text to machine code
opencl.py     OpenCL's devices
listing.py    the devices of all drivers
array.py      arrays on a device, shared by DLPack
executor.py   calls
loading.py    programs by device
tuner.py      schedules that are measured; schedules.py keeps them, stopwatch.py has their times
vendor.py     libraries that compute kernels: cublas.py products, cudnn.py convolutions; libraries.py calls them
"""
