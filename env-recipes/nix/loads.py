"""Loads an ONNX Runtime library and holds the version that it names against the recipe's.

usage: loads.py LIBRARY VERSION
"""

import ctypes
import sys


class ApiBase(ctypes.Structure):
    """`OrtApiBase`, the one structure of the C API that never changes."""

    _fields_ = [("get_api", ctypes.c_void_p), ("get_version_string", ctypes.CFUNCTYPE(ctypes.c_char_p))]


library, wanted = sys.argv[1:]
loaded = ctypes.CDLL(library)
loaded.OrtGetApiBase.restype = ctypes.POINTER(ApiBase)
found = loaded.OrtGetApiBase().contents.get_version_string().decode()
if found != wanted:
    sys.exit(f"{library} says that it is {found}, and the recipe says {wanted}")
with open("/proc/self/maps", encoding="utf-8") as maps:
    files = {line.split(maxsplit=5)[5].strip() for line in maps if ".so" in line}
print(f"{library} loads and is {found}; with it came", *sorted(f for f in files if "stdc++" in f or "libgcc" in f))
