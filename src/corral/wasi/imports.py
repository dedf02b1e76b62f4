"""Imports: the functions that a module can be given, with their types, and how their errors reach it."""

from __future__ import annotations

from corral.wasi import numbers
from corral.wasi.guest_memory import GuestMemory, MemoryFault
from corral.wasi.handles import WasiError
from corral.wasi.tree import ModuleRefusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from corral.wasi.process import ProcessCalls

WASI_MODULE = "wasi_snapshot_preview1"
#: Name -> arguments (i: 32 bits, I: 64 bits). Each returns an error number, but for `proc_exit`.
SIGNATURES = {
    "args_get": "ii",
    "args_sizes_get": "ii",
    "clock_res_get": "ii",
    "clock_time_get": "iIi",
    "environ_get": "ii",
    "environ_sizes_get": "ii",
    "fd_advise": "iIIi",
    "fd_allocate": "iII",
    "fd_close": "i",
    "fd_datasync": "i",
    "fd_fdstat_get": "ii",
    "fd_fdstat_set_flags": "ii",
    "fd_fdstat_set_rights": "iII",
    "fd_filestat_get": "ii",
    "fd_filestat_set_size": "iI",
    "fd_filestat_set_times": "iIIi",
    "fd_pread": "iiiIi",
    "fd_prestat_dir_name": "iii",
    "fd_prestat_get": "ii",
    "fd_pwrite": "iiiIi",
    "fd_read": "iiii",
    "fd_readdir": "iiiIi",
    "fd_renumber": "ii",
    "fd_seek": "iIii",
    "fd_sync": "i",
    "fd_tell": "ii",
    "fd_write": "iiii",
    "path_create_directory": "iii",
    "path_filestat_get": "iiiii",
    "path_filestat_set_times": "iiiiIIi",
    "path_link": "iiiiiii",
    "path_open": "iiiiiIIii",
    "path_readlink": "iiiiii",
    "path_remove_directory": "iii",
    "path_rename": "iiiiii",
    "path_symlink": "iiiii",
    "path_unlink_file": "iii",
    "poll_oneoff": "iiii",
    "proc_exit": "i",
    "proc_raise": "i",
    "random_get": "ii",
    "sched_yield": "",
    "sock_accept": "iii",
    "sock_recv": "iiiiii",
    "sock_send": "iiiii",
    "sock_shutdown": "ii",
}
#: These need nothing of the module's memory, which it may not even have.
_WITHOUT_MEMORY = frozenset({"proc_exit", "proc_raise", "sched_yield"})


def define_wasi(
    linker: Any, calls: ProcessCalls, report: Callable[[ModuleRefusal], None], wanted: Any
) -> None:
    """Offer what it imports of WASI to a module. What is refused is reported at once."""
    import wasmtime

    kinds = {"i": wasmtime.ValType.i32(), "I": wasmtime.ValType.i64()}
    names = {each.name for each in wanted if each.module == WASI_MODULE}
    for name in names.intersection(SIGNATURES):
        letters = SIGNATURES[name]
        results = [] if name == "proc_exit" else [wasmtime.ValType.i32()]
        kind = wasmtime.FuncType([kinds[letter] for letter in letters], results)
        linker.define_func(WASI_MODULE, name, kind, _answering(getattr(calls, name), report), True)


def _answering(call: Callable[..., None], report: Callable[[ModuleRefusal], None]) -> Callable[..., int]:
    def answer(caller: Any, *arguments: int) -> int:
        memory = caller.get("memory")
        try:
            if call.__name__ in _WITHOUT_MEMORY:
                call(None, *arguments)
            elif memory is None or not hasattr(memory, "data_len"):
                return numbers.FAULT
            else:
                call(GuestMemory(memory, caller), *arguments)
        except ModuleRefusal as refusal:
            report(refusal)
            return refusal.number
        except WasiError as problem:
            return problem.number
        except MemoryFault:
            return numbers.FAULT
        except OSError as problem:
            return numbers.from_host(problem.errno)
        except ValueError:
            return numbers.INVALID
        return numbers.SUCCESS

    return answer
