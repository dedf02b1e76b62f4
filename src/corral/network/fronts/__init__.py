"""Where a sandbox's connections come in: listeners, the proxy, notifications, published ports."""
