"""Programs for devices: kernels in a device's language, and a host program in C that calls its driver.

dialect.py    the words of a language, as data
kernels.py    the text of kernels
host.py       the host program
program.py    the files of a program
"""
