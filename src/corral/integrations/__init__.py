"""Tools for those who write an agent, and adapters for frameworks, each a module by itself."""
