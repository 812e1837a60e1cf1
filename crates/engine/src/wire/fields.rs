//! Reading and writing the fields of payloads: fixed-width numbers and byte strings with their length before them.

use crate::error::{Error, Result};
use crate::wire::frame::damaged;

/// A payload that is read from its front. Every method fails when too little is left.
#[derive(Debug)]
pub struct Fields<'a> {
    left: &'a [u8],
}

impl<'a> Fields<'a> {
    pub fn new(payload: &'a [u8]) -> Self {
        Fields { left: payload }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, left) = self.left.split_at_checked(count).ok_or_else(|| damaged("a message ends too early"))?;
        self.left = left;
        Ok(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// A byte string with its length in two bytes.
    pub fn string(&mut self) -> Result<&'a [u8]> {
        let length = self.u16()?;
        self.take(usize::from(length))
    }

    /// The same, UTF-8.
    pub fn text(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.string()?).map_err(|_| damaged("a message holds text that is not UTF-8"))
    }

    /// Nothing may be left.
    pub fn end(self) -> Result<()> {
        match self.left.len() {
            0 => Ok(()),
            count => Err(damaged(format!("a message has {count} bytes too many"))),
        }
    }
}

/// Appends a byte string with its length in two bytes; `what` names it when it is too long.
pub fn put_string(out: &mut Vec<u8>, what: &str, bytes: &[u8]) -> Result<()> {
    let length = u16::try_from(bytes.len())
        .map_err(|_| Error::config(format!("{what} of {} bytes is too long to ask a peer for", bytes.len())))?;
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}
