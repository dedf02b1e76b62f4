"""The command line: arguments in, words out; everything else is the library's."""
