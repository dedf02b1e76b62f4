"""Docker and Podman: one lowering for both, the image and the engine beneath them."""
