"""What kernel and launcher are told, as bytes: specs, seccomp filters, Landlock rules. Nothing is called."""
