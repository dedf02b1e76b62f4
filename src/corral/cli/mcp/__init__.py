"""`corral mcp …`: a server for agents, its installation, and the servers of others in a sandbox."""
