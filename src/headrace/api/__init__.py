"""The objects that people declare: Datasets, runtimes and operations of `data.fluid.io/v1alpha1`, as typed values.

One model per kind is the only source: it checks YAML (`reading`), writes it (`writing`), the CRDs (`crd`) and the
reference page (`reference`), and says what `get` prints (`columns`, `printing`). Nothing here does I/O, knows the
time, or knows which backend will act on an object.
"""
