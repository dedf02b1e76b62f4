"""WASI: what a WebAssembly module can ask of the host, and the process that runs one."""
