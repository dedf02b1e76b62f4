"""The three streams of a command: pipes, terminals, destinations, bounds."""
