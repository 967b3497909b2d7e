# SPDX-License-Identifier: Apache-2.0
"""Python, C, Python in a second thread, for cases: callback.py. Works with Python 3.6 and later."""
import _thread
import ctypes
import time

COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


def spin():
    while True:
        for i in range(1000):
            i * i


def compare(_a, _b):
    spin()
    return 0


def sort():
    ctypes.CDLL(None).qsort((ctypes.c_int * 2)(2, 1), 2, 4, COMPARE(compare))


def thread(_):
    sort()


_thread.start_new_thread(thread, (None,))
time.sleep(1000)
