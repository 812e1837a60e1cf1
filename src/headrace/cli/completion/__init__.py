"""Scripts that complete the words of `headrace` and `arena` in shells. They hold all words: no key starts Python."""
