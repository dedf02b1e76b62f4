"""An MCP server: a sandbox as tools for any agent that speaks the Model Context Protocol."""
