"""Everything visible: one panel a file. Panels read the store and push commands."""
