//! Reading and writing the fields of payloads, with an error that says what is wrong with them.

use crate::error::{Error, Result};
use crate::fields;
use crate::wire::frame::damaged;

/// A payload that is read from its front. Every method fails when too little is left.
#[derive(Debug)]
pub struct Fields<'a>(fields::Fields<'a>);

impl<'a> Fields<'a> {
    pub fn new(payload: &'a [u8]) -> Self {
        Fields(fields::Fields::new(payload))
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        whole(self.0.array())
    }

    pub fn u8(&mut self) -> Result<u8> {
        whole(self.0.u8())
    }

    pub fn u16(&mut self) -> Result<u16> {
        whole(self.0.u16())
    }

    pub fn u32(&mut self) -> Result<u32> {
        whole(self.0.u32())
    }

    pub fn u64(&mut self) -> Result<u64> {
        whole(self.0.u64())
    }

    pub fn i64(&mut self) -> Result<i64> {
        whole(self.0.i64())
    }

    /// A byte string with its length in two bytes.
    pub fn string(&mut self) -> Result<&'a [u8]> {
        whole(self.0.string())
    }

    /// The same, UTF-8.
    pub fn text(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.string()?).map_err(|_| damaged("a message holds text that is not UTF-8"))
    }

    /// Nothing may be left.
    pub fn end(self) -> Result<()> {
        match self.0.len() {
            0 => Ok(()),
            count => Err(damaged(format!("a message has {count} bytes too many"))),
        }
    }
}

fn whole<T>(field: Option<T>) -> Result<T> {
    field.ok_or_else(|| damaged("a message ends too early"))
}

/// Appends a byte string with its length in two bytes; `what` names it when it is too long.
pub fn put_string(out: &mut Vec<u8>, what: &str, bytes: &[u8]) -> Result<()> {
    let length = u16::try_from(bytes.len())
        .map_err(|_| Error::config(format!("{what} of {} bytes is too long to ask a peer for", bytes.len())))?;
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}
