"""The parts of train.py, which reads ImageNet-shaped TFRecords and knows nothing of what serves them."""
