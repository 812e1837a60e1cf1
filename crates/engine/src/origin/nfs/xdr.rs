//! XDR (RFC 4506) as far as NFS needs it.
//!
//! A reader trusts no length: each is held against a bound and against what is there before anything is taken, and what
//! is taken is a slice of the reply, not a copy.

use bytes::{BufMut, Bytes, BytesMut};

/// A reply that does not say what it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Garbled;

type Result<T> = std::result::Result<T, Garbled>;

/// Arguments of a call, in order.
#[derive(Debug, Default)]
pub(super) struct Writer {
    bytes: BytesMut,
}

impl Writer {
    pub fn number(mut self, value: u32) -> Self {
        self.bytes.put_u32(value);
        self
    }

    pub fn long(mut self, value: u64) -> Self {
        self.bytes.put_u64(value);
        self
    }

    /// Bytes whose number both sides know: a multiple of four.
    pub fn fixed(mut self, bytes: &[u8]) -> Self {
        self.bytes.put_slice(bytes);
        self
    }

    /// Bytes with their length before and zeros after them.
    pub fn opaque(mut self, bytes: &[u8]) -> Self {
        self.bytes.put_u32(bytes.len() as u32);
        self.bytes.put_slice(bytes);
        self.bytes.put_bytes(0, padding(bytes.len()));
        self
    }

    pub fn finish(self) -> Bytes {
        self.bytes.freeze()
    }
}

/// What is left of a reply.
#[derive(Debug)]
pub(super) struct Reader {
    bytes: Bytes,
}

impl Reader {
    pub fn new(bytes: Bytes) -> Self {
        Reader { bytes }
    }

    pub fn number(&mut self) -> Result<u32> {
        self.fixed().map(u32::from_be_bytes)
    }

    pub fn long(&mut self) -> Result<u64> {
        self.fixed().map(u64::from_be_bytes)
    }

    pub fn truth(&mut self) -> Result<bool> {
        match self.number()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Garbled),
        }
    }

    pub fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut value = [0; N];
        value.copy_from_slice(&self.take(N)?);
        Ok(value)
    }

    /// Bytes with their length before them, `most` at the most.
    pub fn opaque(&mut self, most: usize) -> Result<Bytes> {
        let length = self.number()? as usize;
        if length > most {
            return Err(Garbled);
        }
        let bytes = self.take(length)?;
        self.take(padding(length))?;
        Ok(bytes)
    }

    /// What `read` gives, if the reply says that it is there.
    pub fn optional<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<Option<T>> {
        if self.truth()? { read(self).map(Some) } else { Ok(None) }
    }

    fn take(&mut self, length: usize) -> Result<Bytes> {
        if length > self.bytes.len() {
            return Err(Garbled);
        }
        Ok(self.bytes.split_to(length))
    }
}

fn padding(length: usize) -> usize {
    length.wrapping_neg() & 3
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_again() {
        for length in 0..9 {
            let text = vec![7; length];
            let bytes = Writer::default().number(5).opaque(&text).long(1 << 40).number(1).fixed(b"verifier").finish();
            assert_eq!(bytes.len() % 4, 0);
            let mut reader = Reader::new(bytes);
            assert_eq!(reader.number(), Ok(5));
            assert_eq!(reader.opaque(8).unwrap(), text);
            assert_eq!(reader.long(), Ok(1 << 40));
            assert_eq!(reader.truth(), Ok(true));
            assert_eq!(reader.fixed(), Ok(*b"verifier"));
            assert_eq!(reader.number(), Err(Garbled));
        }
    }

    #[test]
    fn no_length_is_believed() {
        let huge = || Reader::new(Writer::default().number(u32::MAX).number(0).finish());
        assert_eq!(huge().opaque(usize::MAX), Err(Garbled));
        assert_eq!(huge().opaque(64), Err(Garbled));
        assert_eq!(huge().truth(), Err(Garbled));
        let unpadded = Reader::new(Bytes::from_static(&[0, 0, 0, 1, 9])).opaque(64);
        assert_eq!(unpadded, Err(Garbled));
    }

    #[test]
    fn an_option_takes_no_more_than_its_mark_when_it_is_absent() {
        let mut reader = Reader::new(Writer::default().number(0).number(1).number(9).finish());
        assert_eq!(reader.optional(Reader::number), Ok(None));
        assert_eq!(reader.optional(Reader::number), Ok(Some(9)));
    }
}
