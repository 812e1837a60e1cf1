//! Who fetches what from where: single-flight fills, read-ahead, prefetch.
