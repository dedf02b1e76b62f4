"""The stages of a run: read what a caller gave, plan, open the network, launch; anew if the host changed."""
