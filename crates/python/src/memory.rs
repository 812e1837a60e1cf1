//! Caller-owned memory (bytearray, numpy, torch through numpy, …) as byte slices, without a copy.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;

/// A writable, contiguous buffer that stays exported while this lives.
pub struct Memory {
    buffer: PyBuffer<u8>,
    address: usize,
    length: usize,
}

impl Memory {
    /// Refuses read-only and strided memory.
    pub fn writable(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        // Any item type is welcome: the view is taken as bytes.
        let view = object.py().import("builtins")?.getattr("memoryview")?.call1((object,))?;
        let is_empty = view.getattr("nbytes")?.extract::<usize>()? == 0;
        let bytes = if is_empty { view } else { view.call_method1("cast", ("B",)).map_err(strided)? };
        let buffer = PyBuffer::<u8>::get(&bytes)?;
        if buffer.readonly() {
            return Err(PyBufferError::new_err("the buffer is read-only; pass a bytearray or a writable array"));
        }
        let (address, length) = (buffer.buf_ptr() as usize, buffer.len_bytes());
        Ok(Memory { buffer, address, length: if is_empty { 0 } else { length } })
    }

    /// The memory itself. Python code must not touch it meanwhile; that is the caller's promise, as with `readinto`.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        if self.length == 0 {
            return &mut [];
        }
        debug_assert!(self.buffer.is_c_contiguous());
        // SAFETY: the buffer protocol keeps `length` bytes at `address` alive and in place while `buffer` is exported,
        // and it was checked to be writable and contiguous.
        unsafe { std::slice::from_raw_parts_mut(self.address as *mut u8, self.length) }
    }
}

fn strided(_: PyErr) -> PyErr {
    PyTypeError::new_err("the buffer is not contiguous; pass one that is")
}
