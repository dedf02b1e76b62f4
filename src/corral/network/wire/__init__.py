"""Protocols as bytes: DNS, TLS, HTTP, SOCKS; read and written, nothing decided."""
