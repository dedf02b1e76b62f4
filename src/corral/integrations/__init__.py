"""What other programs' authors plug in: tools in the words of the interfaces that they have already."""
