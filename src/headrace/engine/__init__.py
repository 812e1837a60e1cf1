"""The only Python that touches the native module: handles, and the words that people write for origins and caches."""
