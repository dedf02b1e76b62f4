"""What needs corral-launch, and so Linux: starting it, what it reports, the sandboxes it keeps."""
