//! Placement as Python sees it: who owns a block, by name.

use headrace_engine::error::Error;
use headrace_engine::ids::{BlockSize, FileId};
use headrace_engine::ring::{Ring as Inner, StripeId, View, stripe_of};
use pyo3::prelude::*;

use crate::errors::to_python;

/// The workers of one view, to be asked for places.
#[pyclass(frozen, module = "headrace._native")]
pub struct Ring(Inner);

#[pymethods]
impl Ring {
    #[new]
    fn new(python: Python<'_>, view_json: &str) -> PyResult<Self> {
        let ring = python.detach(|| View::from_json(view_json.as_bytes()).and_then(Inner::new));
        ring.map(Ring).map_err(to_python)
    }

    /// The owners of a block, the primary first.
    fn owners(&self, file_id: &str, index: u32, block_size: u32) -> PyResult<Vec<String>> {
        let stripe = stripe(file_id, index, block_size)?;
        Ok(self.names(self.0.owners(stripe)))
    }

    /// The first `most` workers for a block, draining ones among them, best first.
    fn ranking(&self, file_id: &str, index: u32, block_size: u32, most: usize) -> PyResult<Vec<String>> {
        let stripe = stripe(file_id, index, block_size)?;
        Ok(self.names(self.0.ranking(stripe, most)))
    }
}

impl Ring {
    fn names(&self, indices: Vec<usize>) -> Vec<String> {
        indices.into_iter().map(|index| self.0.member(index).id.to_string()).collect()
    }
}

fn stripe(file_id: &str, index: u32, block_size: u32) -> PyResult<StripeId> {
    let file = parse_file_id(file_id).ok_or_else(|| bad_word("a file id is 32 hexadecimal digits"))?;
    let size = BlockSize::new(block_size).ok_or_else(|| bad_word("a block is a power of two from 64Ki to 64Mi"))?;
    Ok(stripe_of(&file, index, size))
}

fn parse_file_id(text: &str) -> Option<FileId> {
    let is_plain = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u128::from_str_radix(text, 16).ok().filter(|_| is_plain)?;
    Some(FileId(number.to_be_bytes()))
}

fn bad_word(message: &str) -> PyErr {
    to_python(Error::config(message))
}
