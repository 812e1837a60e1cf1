"""The SDK: datasets, files, fsspec, PyTorch and TensorFlow, all over one engine handle."""
