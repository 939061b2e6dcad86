"""A compiled library of exported functions, opened; the other side is tk/extend.hpp."""

from __future__ import annotations

import ctypes
from pathlib import Path

from tk.extension.signature import Signature

__all__ = ["Library"]

_ABI_VERSION = 1
_WRONG_ARGUMENT = 2


class Library:
    """The functions of one library by name, each with its overloads: (index, signature).

    OSError when it cannot be opened or was compiled with the headers of another version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._library = ctypes.CDLL(str(path))
        try:
            version = self._library.tk_extension_abi_version()
        except AttributeError:
            raise OSError(
                f"{path}: exports nothing; a source must include tk/extend.hpp and TK_EXPORT"
            ) from None
        if version != _ABI_VERSION:
            raise OSError(
                f"{path}: was compiled with tk's interface {version}, this tk has {_ABI_VERSION}: "
                "compile it again"
            )
        for name in ("architecture", "signature", "last_error"):
            getattr(self._library, f"tk_extension_{name}").restype = ctypes.c_char_p
        self.architecture: str = self._library.tk_extension_architecture().decode()
        self._call = self._library.tk_extension_call
        self._call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p)
        self.functions: dict[str, list[tuple[int, Signature]]] = {}
        for index in range(self._library.tk_extension_count()):
            signature = Signature.parse(self._library.tk_extension_signature(index).decode())
            self.functions.setdefault(signature.name, []).append((index, signature))

    def call(self, index: int, name: str, words: bytes, device: int, stream: int) -> None:
        """Calls a function; others may have the GIL meanwhile. ValueError for what its `require`
        refuses, RuntimeError for every other exception of C++."""
        status = self._call(index, words, device, stream)
        if status == 0:
            return
        message = f"{name}: {self._library.tk_extension_last_error().decode(errors='replace')}"
        raise ValueError(message) if status == _WRONG_ARGUMENT else RuntimeError(message)
