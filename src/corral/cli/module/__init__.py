"""`corral module ...`: WebAssembly modules on the command line."""
