# SPDX-License-Identifier: Apache-2.0
"""Two processes hold the locks of their address spaces, one from the start and one two seconds later, and call new functions all the time.

fuse/code is a file that cannot be written (withheld.c, "lock"). Before the kernel maps it where nothing of it is kept, it writes back what was
changed through another mapping. It holds the lock meanwhile, for ever.
"""
import ctypes
import os
import threading
import time

PAGE = 4096
PROT_READ, PROT_WRITE, MAP_SHARED, MAP_PRIVATE, MAP_FIXED, MAP_ANONYMOUS = 1, 2, 1, 2, 16, 32
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]

uncached = os.open("fuse/code", os.O_RDONLY)
ctypes.memset(libc.mmap(None, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, os.open("fuse/code", os.O_RDWR), 0), 1, 1)
# A reader of the list of mappings comes to the one that is replaced.
replaced = libc.mmap(None, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)


def hold():
    threading.Thread(target=libc.mmap, args=(replaced, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, uncached, 0), daemon=True).start()


def work(seconds):
    until = time.monotonic() + seconds
    number = 0
    while time.monotonic() < until:
        names = {"time": time}
        exec(f"def new_{number}():\n until = time.monotonic() + 0.02\n while time.monotonic() < until: pass\n", names)
        names[f"new_{number}"]()
        number += 1


if os.fork() == 0:
    hold()
    time.sleep(0.2)
    print("ready", flush=True)
    work(3600)
work(2)
hold()
work(3600)
