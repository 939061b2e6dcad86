"""tk.load and tk.open_extension: kernels of the user's own as Python callables."""

from __future__ import annotations

import os
import re
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tk.errors import listed
from tk.extension.build import LIBRARY, LOG, build
from tk.extension.compiler import ARCHITECTURES
from tk.extension.errors import CompileError
from tk.extension.kernel import Kernel
from tk.extension.library import Library
from tk.extension.sources import exported_names, resolve_sources, user_files

__all__ = ["Extension", "load", "open_extension"]

PathLike = str | os.PathLike[str]

_lock = threading.Lock()
_opened: dict[Path, Library] = {}  # of this process: a build is opened once


class _Kernels(Mapping[str, Kernel]):
    """An extension's kernels by name."""

    def __init__(self, extension: Extension) -> None:
        self._extension = extension

    def __getitem__(self, name: str) -> Kernel:
        found = self._extension._kernel(name)
        if found is None:
            raise KeyError(str(self._extension._no_function(name)))
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._extension._known())

    def __len__(self) -> int:
        return len(self._extension._known())


class Extension:
    """Kernels compiled from a user's sources: its attributes are callables, `dir()` lists them.

    `kernels` is a mapping of all of them by name, for a name that is known at run time only, or
    that is one of the extension's own: a kernel called `name` is `kernels["name"]`, and only that.
    `name` is the extension's, and `architectures` what it can run: "host" for CPU tensors, "sm90"
    for CUDA tensors.
    """

    def __init__(
        self,
        name: str,
        architectures: Sequence[str],
        find: Callable[[str], Path],
        names: Sequence[str] | None = (),
    ) -> None:
        self.name = name
        self.architectures = tuple(architectures)
        self._find = find  # the library's path, compiled if need be
        # As the text of the sources shows them; None: only a library tells.
        self._names = None if names is None else tuple(names)
        self._libraries: dict[str, Library] = {}
        self._failed: dict[
            str, CompileError
        ] = {}  # not tried again: only tk.load reads sources anew
        self._callables: dict[str, Kernel] = {}
        self._hidden: set[str] = set()  # names that have been warned of
        self._lock = threading.RLock()
        self._warn_of_hidden(names or ())

    def _library(self, architecture: str) -> Library:
        """The library for an architecture, compiled and opened when first asked for."""
        found = self._libraries.get(architecture)
        if found is None:
            with self._lock:
                found = self._libraries.get(architecture)
                if architecture in self._failed:
                    earlier = self._failed[architecture]
                    raise CompileError(str(earlier), earlier.log)
                if found is None:
                    try:
                        found = _open(self._find, architecture)
                    except CompileError as error:
                        self._failed[architecture] = error
                        raise
                    self._libraries[architecture] = found
                    self._warn_of_hidden(found.functions)
        return found

    @property
    def kernels(self) -> Mapping[str, Kernel]:
        """Every exported kernel by its name, whatever that is. KeyError lists what there is."""
        return _Kernels(self)

    def build_log(self, architecture: str) -> Path:
        """The file with the compiler's command and words (for sm90 registers and spills)."""
        return self._library(architecture).path.with_name(LOG)

    def _no_function(self, name: str) -> AttributeError:
        """The error for a name that is not exported."""
        known = self._known()
        has = f"exports {listed(known)}" if known else "exports nothing (TK_EXPORT)"
        return AttributeError(f"extension {self.name} has no kernel {name}; it {has}")

    def _known(self) -> list[str]:
        """The exported names: those of an opened library, else as the sources' text shows them."""
        for library in list(self._libraries.values()):
            return list(library.functions)
        return list(self._names or ())

    def _kernel(self, name: str) -> Kernel | None:
        """The kernel of a name, if it is exported."""
        if name not in self._callables:
            is_told = self._names is not None or self._libraries
            if is_told and name not in self._known():
                return None
            self._callables[name] = Kernel(self, name)
        return self._callables[name]

    def _warn_of_hidden(self, names: Iterable[str]) -> None:
        """Tells of kernels that are not attributes, since the extension has others of that name."""
        own = {*vars(self), *dir(type(self))}
        for name in sorted({*names} - self._hidden):
            if name in own or name.startswith("_"):
                self._hidden.add(name)
                warnings.warn(
                    f"extension {self.name}: its kernel {name} has the name of an attribute that "
                    f'is no kernel, and is reached as kernels["{name}"] alone',
                    stacklevel=4,
                )

    def __getattr__(self, name: str) -> Kernel:
        if name.startswith("_"):
            raise AttributeError(name)
        found = self._kernel(name)
        if found is None:
            raise self._no_function(name)
        return found

    def __copy__(self) -> Extension:
        return self

    def __deepcopy__(self, memo: object) -> Extension:
        """A module that holds kernels may be copied: they have no state."""
        return self

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._known()})

    def __repr__(self) -> str:
        return f"<extension {self.name} for {' and '.join(self.architectures)}>"


def load(
    sources: PathLike | Iterable[PathLike],
    *,
    arch: str | None = None,
    name: str | None = None,
    verbose: bool = False,
    flags: Sequence[str] = (),
) -> Extension:
    """Compiles kernels that include tk/extend.hpp, and returns them as callables.

    sources: a C++ file or several, of any suffix, compiled together for each architecture.
    arch:    "host" (CPU tensors, g++) or "sm90" (CUDA tensors, nvcc) compiles now; None compiles
             for the one or the other when a kernel is first called with such tensors.
    name:    for the cache and for messages; default: the first source's name.
    verbose: prints the compiler's command and words to standard error.
    flags:   more for the compiler, such as "-DBLOCK=64" or "-I/some/folder".

    What was compiled is kept in `tk.extension.extension_cache_dir()` by the content of the sources,
    of the headers they include and of tk's own, by compiler, flags and version; several threads or
    processes that want one kernel compile it once. See docs/extending.md.

    Raises tk.extension.CompileError with the errors in the user's own lines (`.log` is the file
    with everything), MissingToolError when a compiler or CUTLASS is not there, ValueError and
    TypeError for arguments that make no sense.
    """
    paths = resolve_sources(sources)
    if arch is not None and arch not in ARCHITECTURES:
        raise ValueError(f"tk.load: arch is {arch!r}; must be {listed([*ARCHITECTURES, None])}")
    if isinstance(flags, str) or not isinstance(flags, Iterable):
        raise TypeError(f"tk.load: flags is {type(flags).__name__}; must be a sequence of str")
    flags = tuple(flags)
    for flag in flags:
        if not isinstance(flag, str):
            raise TypeError(
                f"tk.load: flags has a {type(flag).__name__}; must be a sequence of str"
            )
    if name is not None and not isinstance(name, str):
        raise TypeError(f"tk.load: name is {type(name).__name__}; must be a str")
    own = _checked_name(paths[0].stem if name is None else name, given=name is not None)

    folder = Path.cwd()  # of the flags, also of a build at a later call

    def find(architecture: str) -> Path:
        return build(own, paths, architecture, flags, verbose, folder) / LIBRARY

    if arch is None:
        names = exported_names(user_files(paths, flags, folder).values())
        return Extension(own, ARCHITECTURES, find, names)
    extension = Extension(own, (arch,), find)
    extension._library(arch)
    return extension


def open_extension(folder: PathLike, name: str) -> Extension:
    """Kernels that were compiled ahead, by tk_add_extension(NAME ...) of the CMake package: the
    libraries libNAME_host.so and libNAME_sm90.so of a folder, one or both.

    ValueError when neither is there; OSError when one cannot be opened.
    """
    paths = {one: Path(folder) / f"lib{name}_{one}.so" for one in ARCHITECTURES}
    there = {one: path for one, path in paths.items() if path.is_file()}
    if not there:
        expected = " nor ".join(path.name for path in paths.values())
        raise ValueError(f"tk.open_extension: folder is {folder}, with neither {expected} in it")
    return _of_libraries(name, there)


def _of_libraries(name: str, paths: Mapping[str, Path]) -> Extension:
    extension = Extension(name, tuple(paths), lambda architecture: paths[architecture])
    extension._library(next(iter(paths)))
    return extension


def _checked_name(name: str, *, given: bool) -> str:
    """A name that can be a file's."""
    if given and not re.fullmatch(r"\w[\w.-]*", name):
        raise ValueError(
            f"tk.load: name is {name!r}; must be of letters, digits, and after the first - . _"
        )
    return re.sub(r"[^\w.-]", "_", name)


def _open(find: Callable[[str], Path], architecture: str) -> Library:
    path = find(architecture)
    with _lock:
        if path not in _opened:
            _opened[path] = Library(path)
        return _opened[path]
