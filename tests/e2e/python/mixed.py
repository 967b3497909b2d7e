# SPDX-License-Identifier: Apache-2.0
"""Python -> C (libffi, libjvm) -> Java -> C -> Python: a JVM in this process, by its invocation interface (JNI 1.8, tables of functions by index).
Arguments: libjvm.so, directory with Mixed.class, and how many levels of Java and Python call each other in turn (none: they calculate in turn)."""
import ctypes
import sys
import time

JNI_VERSION_1_8 = 0x00010008
FIND_CLASS, GET_STATIC_METHOD_ID, CALL_STATIC_VOID_METHOD, REGISTER_NATIVES = 6, 113, 141, 215


class Option(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char_p), ("extra", ctypes.c_void_p)]


class Arguments(ctypes.Structure):
    _fields_ = [("version", ctypes.c_int), ("count", ctypes.c_int), ("options", ctypes.POINTER(Option)), ("lenient", ctypes.c_ubyte)]


class NativeMethod(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("signature", ctypes.c_char_p), ("function", ctypes.c_void_p)]


def spin_in_python(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for i in range(1000):
            i * i


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
def called_back(_env, _class):
    spin_in_python(0.02)


class Machine:
    def __init__(self, library, classes):
        option = Option(b"-Djava.class.path=" + classes.encode(), None)
        arguments = Arguments(JNI_VERSION_1_8, 1, ctypes.pointer(option), 0)
        self.machine, self.env = ctypes.c_void_p(), ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p))()
        if ctypes.CDLL(library).JNI_CreateJavaVM(ctypes.byref(self.machine), ctypes.byref(self.env), ctypes.byref(arguments)):
            sys.exit("no JVM")

    def call(self, index, result, *arguments):
        types = [ctypes.c_void_p if isinstance(a, (int, ctypes.c_void_p)) else type(a) if isinstance(a, ctypes.Structure) else ctypes.c_char_p for a in arguments]
        function = ctypes.CFUNCTYPE(result, ctypes.c_void_p, *types)(self.env[0][index])
        return function(ctypes.cast(self.env, ctypes.c_void_p), *arguments)


def alternate(machine, mixed, levels):
    """Java calls this function, and it calls Java, `levels` times."""
    method = machine.call(GET_STATIC_METHOD_ID, ctypes.c_void_p, mixed, b"alternate", b"(I)V")

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
    def in_python(_env, _class, left):
        machine.call(CALL_STATIC_VOID_METHOD, None, mixed, method, left)

    native = NativeMethod(b"alternateInPython", b"(I)V", ctypes.cast(in_python, ctypes.c_void_p).value)
    machine.call(REGISTER_NATIVES, ctypes.c_int, mixed, ctypes.addressof(native), 1)
    print("ready", flush=True)
    machine.call(CALL_STATIC_VOID_METHOD, None, mixed, method, levels)


def main():
    machine = Machine(sys.argv[1], sys.argv[2])
    mixed = machine.call(FIND_CLASS, ctypes.c_void_p, b"Mixed")
    if len(sys.argv) > 3:
        alternate(machine, mixed, int(sys.argv[3]))
    method = NativeMethod(b"callBack", b"()V", ctypes.cast(called_back, ctypes.c_void_p).value)
    machine.call(REGISTER_NATIVES, ctypes.c_int, mixed, ctypes.addressof(method), 1)
    run = machine.call(GET_STATIC_METHOD_ID, ctypes.c_void_p, mixed, b"run", b"()V")
    print("ready", flush=True)
    machine.call(CALL_STATIC_VOID_METHOD, None, mixed, run)


main()
